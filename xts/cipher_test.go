package xts_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/xtsdisk/xtsdisk/xts"
)

func TestNewCipherErrors(t *testing.T) {
	for n := range 130 {
		_, err := xts.NewCipher(stream("key", n))
		if ok := n == 32 || n == 48 || n == 64; ok != (err == nil) {
			t.Errorf("key of %d bytes: %v", n, err)
		} else if !ok && !strings.Contains(err.Error(), fmt.Sprintf("%d bytes", n)) {
			t.Errorf("key of %d bytes: the error does not say so: %v", n, err)
		}
	}
	for _, size := range keySizes {
		half := stream("half", size/2)
		key := slices.Concat(half, half)
		if _, err := xts.NewCipher(key); !errors.Is(err, xts.ErrEqualHalves) {
			t.Errorf("equal halves of %d bytes: %v", size/2, err)
		}
		if _, err := xts.NewCipher(key, xts.AllowEqualHalves()); err != nil {
			t.Errorf("equal halves, allowed: %v", err)
		}
		for _, i := range []int{0, size/2 - 1, size / 2, size - 1} {
			key := slices.Clone(key)
			key[i] ^= 0x80
			if _, err := xts.NewCipher(key); err != nil {
				t.Errorf("halves that differ at byte %d only: %v", i, err)
			}
		}
	}
}

func TestLevels(t *testing.T) {
	key := testKey(64)
	if _, err := xts.NewCipher(key, xts.WithLevel("fastest")); err == nil || !strings.Contains(err.Error(), "fastest") {
		t.Errorf("unknown level: %v", err)
	}
	known := []string{"generic", "aesni4", "aesni", "avx", "vaes-avx2", "vaes256", "vaes512"}
	levels := xts.Levels()
	if levels[0] != "generic" {
		t.Errorf("the slowest level is %s", levels[0])
	}
	all := xts.AllLevels()
	if len(all) != len(known) {
		t.Fatalf("all levels: %v, want %v", all, known)
	}
	for i, level := range known {
		if all[i].Name != level || (len(all[i].Missing) == 0) != slices.Contains(levels, level) {
			t.Errorf("level %d: %v, want %s, of %v", i, all[i], level, levels)
		}
		c, err := xts.NewCipher(key, xts.WithLevel(level))
		if (err == nil) != slices.Contains(levels, level) {
			t.Errorf("level %s, of %v: %v", level, levels, err)
		}
		if err == nil && c.Level() != level {
			t.Errorf("level %s became %s", level, c.Level())
		}
	}
	name, why, err := xts.DefaultLevel()
	if err != nil || !slices.Contains(levels, name) || why == "" {
		t.Errorf("default level %q because %q, %v", name, why, err)
	}
	for _, opts := range [][]xts.Option{nil, {xts.WithLevel("")}} {
		c, err := xts.NewCipher(key, opts...)
		if err != nil || c.Level() != name {
			t.Errorf("without a name: level %v, %v; the default is %s", c, err, name)
		}
	}
}

// XTSDISK_LEVEL is read once in a process, so each value needs its own.
func TestLevelVariable(t *testing.T) {
	const child = "XTS_TEST_LEVEL_CHILD"
	if os.Getenv(child) != "" {
		c, err := xts.NewCipher(testKey(64))
		if err != nil {
			fmt.Printf("error: %v\n", err)
			os.Exit(0)
		}
		fmt.Printf("level: %s\n", c.Level())
		os.Exit(0)
	}
	want := map[string]string{"fastest": "error: "}
	for _, level := range xts.Levels() {
		want[level] = "level: " + level + "\n"
	}
	for value, prefix := range want {
		cmd := exec.Command(os.Args[0], "-test.run=^TestLevelVariable$")
		cmd.Env = append(os.Environ(), child+"=1", "XTSDISK_LEVEL="+value, "GORACE=atexit_sleep_ms=0")
		out, err := cmd.CombinedOutput()
		if err != nil && len(out) == 0 {
			t.Skipf("a test cannot start itself here: %v", err) // as under qemu-user without binfmt
		}
		if err != nil || !strings.HasPrefix(string(out), prefix) {
			t.Errorf("XTSDISK_LEVEL=%s: %q, %v", value, out, err)
		}
	}
}

func TestPrintsNoKey(t *testing.T) {
	key := make([]byte, 64)
	for i := range key {
		key[i] = 0xA0 | byte(i&1)
	}
	c, err := xts.NewCipher(key, xts.AllowEqualHalves())
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%08b"} {
		for _, value := range []any{c, *c} {
			if got := fmt.Sprintf(verb, value); got != "xts.Cipher" {
				t.Errorf("%s prints %s", verb, got)
			}
		}
		for _, value := range []any{
			struct{ hidden *xts.Cipher }{c},
			struct{ hidden xts.Cipher }{*c},
			struct{ Seen xts.Cipher }{*c},
			[]*xts.Cipher{c},
			map[string]xts.Cipher{"c": *c},
		} {
			got := fmt.Sprintf(verb, value)
			for _, secret := range []string{"a0a1", "A0A1", "160 161", "0xa0, 0xa1", "10100000 10100001", "a1a0", "161 160"} {
				if strings.Contains(got, secret) {
					t.Errorf("%s of %T prints the key", verb, value)
				}
			}
		}
	}
	if c.String() != "xts.Cipher" || c.GoString() != "xts.Cipher" {
		t.Errorf("String %q, GoString %q", c.String(), c.GoString())
	}
}

func TestWipe(t *testing.T) {
	onEachLevel(t, func(t *testing.T, level string) {
		c := newCipher(t, level, testKey(64))
		copied := *c
		c.Wipe()
		c.Wipe()
		copied.Wipe()
		buf, tweak := make([]byte, 512), [16]byte{}
		for _, c := range []*xts.Cipher{c, &copied} {
			const message = "xts: use after Wipe"
			mustPanic(t, message, func() { c.Encrypt(buf, buf, &tweak) })
			mustPanic(t, message, func() { c.Decrypt(buf, buf, &tweak) })
			mustPanic(t, message, func() { c.EncryptRun(buf, buf, xts.Run{SectorSize: 512}) })
			mustPanic(t, message, func() { c.DecryptRun(buf, buf, xts.Run{SectorSize: 512}) })
			mustPanic(t, message, func() { c.EncryptTweaked(buf, buf, 512, [][16]byte{tweak}) })
			mustPanic(t, message, func() { c.DecryptTweaked(buf, buf, 512, [][16]byte{tweak}) })
		}
		if c.Level() != level {
			t.Errorf("level %s after Wipe", c.Level())
		}
	})
}

// One cipher in many goroutines at once: meant for the race detector, and for
// state that a level might keep between calls.
func TestConcurrentUse(t *testing.T) {
	key := testKey(64)
	ref := newReference(key)
	plain := stream("concurrent", 8*512)
	onEachLevel(t, func(t *testing.T, level string) {
		c := newCipher(t, level, key)
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				run := xts.Run{SectorSize: 512, First: uint64(g) << 20, Kind: xts.TweakKind(g % 3)}
				want := ref.expectRun(plain, run)
				for range 20 {
					got := make([]byte, len(plain))
					c.EncryptRun(got, plain, run)
					if string(got) != string(want) {
						t.Errorf("goroutine %d: wrong ciphertext", g)
					}
					c.DecryptRun(got, got, run)
					if string(got) != string(plain) {
						t.Errorf("goroutine %d: wrong plaintext", g)
					}
				}
			})
		}
		wg.Wait()
	})
}
