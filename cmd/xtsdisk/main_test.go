package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"xtsdisk":       func() { os.Exit(mainExit()) },
		"xtsdisk-stuck": stuck,
	})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("XTSDISK_LEVEL", "")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"xd": scriptXD, "image": scriptImage, "sum": scriptSum, "files": scriptFiles, "mode": scriptMode, "hint": scriptHint, "sizeof": scriptSizeof, "text": scriptText, "cut": scriptCut,
		},
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Geteuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	})
}

// xd CODE [<FILE] [KEY=VALUE...] ARGS runs the program without a terminal and
// demands the exit code. @fast stands for the options of a quick KDF.
func scriptXD(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: xd CODE [<FILE] ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	path, err := exec.LookPath("xtsdisk")
	ts.Check(err)
	cmd := exec.Command(path)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "TMPDIR="+ts.Getenv("TMPDIR"), "HOME="+ts.Getenv("HOME"), "XTSDISK_LEVEL="+ts.Getenv("XTSDISK_LEVEL"))
	cmd.Stdout, cmd.Stderr = ts.Stdout(), ts.Stderr()
	noTerminal(cmd)
	for _, arg := range args[1:] {
		switch name, isInput := strings.CutPrefix(arg, "<"); {
		case isInput:
			f, err := os.Open(ts.MkAbs(name))
			ts.Check(err)
			defer f.Close()
			cmd.Stdin = f
		case arg == "@fast":
			cmd.Args = append(cmd.Args, fast...)
		default:
			cmd.Args = append(cmd.Args, arg)
		}
	}
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		ts.Check(err)
	}
	if code := cmd.ProcessState.ExitCode(); code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

// hint demands that stderr of the last command has a second, indented line
// with this text: what to do next.
func scriptHint(ts *testscript.TestScript, _ bool, args []string) {
	text := ts.ReadFile("stderr")
	_, rest, _ := strings.Cut(text, "\n")
	if !strings.HasPrefix(rest, "  ") || !strings.Contains(rest, args[0]) {
		ts.Fatalf("no hint with %q in:\n%s", args[0], text)
	}
}

// image FILE SIZE makes a file of noise; a second SIZE is where it is a hole.
func scriptImage(ts *testscript.TestScript, _ bool, args []string) {
	n, err := parseSize(args[1], 1)
	ts.Check(err)
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	defer f.Close()
	ts.Check(f.Truncate(n))
	data := n
	if len(args) > 2 {
		data, err = parseSize(args[2], 1)
		ts.Check(err)
	}
	noise := make([]byte, data)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(noise)
	_, err = f.Write(noise)
	ts.Check(err)
}

// text FILE TEXT makes a file without a newline at its end; escapes as in Go.
func scriptText(ts *testscript.TestScript, _ bool, args []string) {
	text, err := strconv.Unquote(`"` + args[1] + `"`)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// cut FILE SIZE shortens a file.
func scriptCut(ts *testscript.TestScript, _ bool, args []string) {
	n, err := parseSize(args[1], 1)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), n))
}

// sum FILE remembers a file's hash, ! sum FILE demands that it is another one
// now, and sum FILE again that it is the same.
func scriptSum(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		h := fmt.Sprintf("%x", sha256.Sum256([]byte(ts.ReadFile(name))))
		variable := "SUM_" + name
		switch old := ts.Getenv(variable); {
		case old == "":
			ts.Setenv(variable, h)
		case (old == h) == neg:
			ts.Fatalf("%s: hash %s, was %s", name, h, old)
		}
	}
}

// files DIR NAME... demands that a folder holds exactly these files.
func scriptFiles(ts *testscript.TestScript, _ bool, args []string) {
	entries, err := os.ReadDir(ts.MkAbs(args[0]))
	ts.Check(err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := slices.Sorted(slices.Values(args[1:]))
	if !slices.Equal(names, want) {
		ts.Fatalf("%s holds %q, want %q", args[0], names, want)
	}
}

func scriptMode(ts *testscript.TestScript, _ bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	want, err := strconv.ParseUint(args[0], 8, 32)
	ts.Check(err)
	if info.Mode().Perm() != fs.FileMode(want) {
		ts.Fatalf("%s: mode %o, want %o", args[1], info.Mode().Perm(), want)
	}
}

func scriptSizeof(ts *testscript.TestScript, _ bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	want, err := parseSize(args[1], 1)
	ts.Check(err)
	if info.Size() != want {
		ts.Fatalf("%s: %d bytes, want %d", args[0], info.Size(), want)
	}
}
