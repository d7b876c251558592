//go:build race && !purego

package asm

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// raceCases touch the memory of a kernel while it may run.
var raceCases = map[string]struct {
	access func(dst, src, tweaks []byte)
	race   bool
}{
	"reads the output":           {func(dst, src, tweaks []byte) { sink = dst[len(dst)-1] }, true},
	"writes the input":           {func(dst, src, tweaks []byte) { src[len(src)-1]++ }, true},
	"writes the tweaks":          {func(dst, src, tweaks []byte) { tweaks[len(tweaks)-1]++ }, true},
	"reads the input and tweaks": {func(dst, src, tweaks []byte) { sink = src[0] ^ tweaks[0] }, false},
}

var sink byte

// The race detector sees nothing of assembly; it is told, and finds the races
// of those who use the memory of a kernel.
func TestRacesAreTold(t *testing.T) {
	const helper = "XTSDISK_TEST_RACE"
	if does := os.Getenv(helper); does != "" {
		level, name, _ := strings.Cut(does, " ")
		l, err := ParseLevel(level)
		if err != nil {
			t.Fatal(err)
		}
		race(l, raceCases[name].access)
		return
	}
	for _, l := range Levels()[1:] {
		for name, c := range raceCases {
			cmd := exec.Command(os.Args[0], "-test.run=^TestRacesAreTold$")
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%v %s", helper, l, name), "GORACE=atexit_sleep_ms=0")
			out, err := cmd.CombinedOutput()
			if got := bytes.Contains(out, []byte("DATA RACE")); got != c.race || got != (err != nil) {
				t.Errorf("%v, another goroutine %s: race found: %v, %v", l, name, got, err)
			}
		}
	}
}

// race runs a kernel and, not ordered with it, another goroutine's access.
func race(l Level, access func(dst, src, tweaks []byte)) {
	k := new(XTSKey)
	k.Init(l, noise(64, 25))
	dst, src, tweaks := make([]byte, 4*512), make([]byte, 4*512), make([]byte, 4*16)
	done := make(chan bool)
	go func() {
		access(dst, src, tweaks)
		done <- true
	}()
	k.EncryptTweaked(dst, src, 512, tweaks)
	<-done
}
