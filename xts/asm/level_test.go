package asm

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestLevelNames(t *testing.T) {
	for l := range levelNames {
		got, err := ParseLevel(Level(l).String())
		if err != nil || got != Level(l) {
			t.Errorf("ParseLevel(%q) = %v, %v", Level(l).String(), got, err)
		}
	}
	for _, name := range []string{"", "AVX", "aesni4 ", "avx512", "Level(1)"} {
		if l, err := ParseLevel(name); err == nil || !strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("ParseLevel(%q) = %v, %v, want an error that names it", name, l, err)
		}
	}
	if s := Level(200).String(); s != "Level(200)" {
		t.Errorf("an unknown level prints as %q", s)
	}
}

func TestLevels(t *testing.T) {
	levels := Levels()
	if levels[0] != Generic || !slices.IsSorted(levels) {
		t.Errorf("Levels() = %v, want Generic first and sorted", levels)
	}
	for l := range levelNames {
		err := Supported(Level(l))
		if (err == nil) != slices.Contains(levels, Level(l)) {
			t.Errorf("Supported(%v) = %v, Levels() = %v", Level(l), err, levels)
		}
		if err != nil && !strings.Contains(err.Error(), Level(l).String()) {
			t.Errorf("Supported(%v) = %q does not name it", Level(l), err)
		}
		if !slices.Contains(levelsInBuild, Level(l)) && (err == nil || !strings.Contains(err.Error(), "not in this build")) {
			t.Errorf("Supported(%v) = %v, want that it is not in this build", Level(l), err)
		}
	}
	if Supported(Level(200)) == nil {
		t.Error("an unknown level is supported")
	}
}

func TestChooseLevel(t *testing.T) {
	for _, l := range Levels() {
		if d := chooseLevel(l.String()); d.err != nil || d.level != l || !strings.Contains(d.why, LevelVariable) {
			t.Errorf("chooseLevel(%q) = %+v", l, d)
		}
	}
	if d := chooseLevel(""); d.err != nil || !slices.Contains(Levels(), d.level) || !strings.HasSuffix(d.why, ".") {
		t.Errorf("chooseLevel(\"\") = %+v", d)
	}
	for _, name := range append([]string{"mmx"}, levelsThatFail()...) {
		d := chooseLevel(name)
		if d.err == nil || !strings.Contains(d.err.Error(), LevelVariable+"="+name) {
			t.Errorf("chooseLevel(%q) = %+v, want an error that names the variable", name, d)
		}
	}
}

// levelsThatFail names the levels that can't run here, if there are any.
func levelsThatFail() (names []string) {
	for _, l := range AllLevels() {
		if !slices.Contains(Levels(), l) {
			names = append(names, l.String())
		}
	}
	return names
}

// The environment variable itself: Default reads it once, so each value takes
// a process.
func TestDefaultFollowsEnvironment(t *testing.T) {
	const helper = "XTSDISK_TEST_PRINT_DEFAULT"
	if os.Getenv(helper) != "" {
		l, _, err := Default()
		_, _ = os.Stdout.WriteString("default: " + l.String() + "\n")
		if err != nil {
			_, _ = os.Stdout.WriteString("error: " + err.Error() + "\n")
		}
		return
	}
	run := func(value string) string {
		cmd := exec.Command(os.Args[0], "-test.run=^TestDefaultFollowsEnvironment$")
		cmd.Env = append(os.Environ(), helper+"=1", LevelVariable+"="+value)
		out, err := cmd.CombinedOutput()
		if errors.Is(err, syscall.ENOEXEC) { // under qemu-user without binfmt
			t.Skipf("a test cannot start itself here: %v", err)
		}
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	for _, l := range Levels() {
		if out := run(l.String()); !strings.Contains(out, "default: "+l.String()+"\n") || strings.Contains(out, "error:") {
			t.Errorf("%s=%v: %s", LevelVariable, l, out)
		}
	}
	if out := run("fastest"); !strings.Contains(out, `error: `+LevelVariable+`=fastest: unknown level "fastest"`) {
		t.Errorf("an unknown level is not refused: %s", out)
	}
}

func TestInitPanics(t *testing.T) {
	cases := map[string]func(k *XTSKey){
		"length":   func(k *XTSKey) { k.Init(Generic, make([]byte, 33)) },
		"no key":   func(k *XTSKey) { k.Init(Generic, nil) },
		"no level": func(k *XTSKey) { k.Init(Level(99), make([]byte, 64)) },
	}
	for _, name := range levelsThatFail() {
		l, err := ParseLevel(name)
		if err != nil {
			t.Fatal(err)
		}
		cases[name] = func(k *XTSKey) { k.Init(l, make([]byte, 64)) }
	}
	for name, init := range cases {
		func() {
			defer func() {
				if msg, ok := recover().(string); !ok || !strings.HasPrefix(msg, "asm: ") {
					t.Errorf("%s: panic %q", name, msg)
				}
			}()
			init(new(XTSKey))
		}()
	}
}
