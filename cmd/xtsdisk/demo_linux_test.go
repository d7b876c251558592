package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xtsdisk/xtsdisk/internal/testenv"
)

func TestDemoSignals(t *testing.T) {
	t.Parallel()
	for sig, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		// after 0: while the image is written; later: while keys are derived or data is copied
		for _, wait := range []time.Duration{0, 700 * time.Millisecond} {
			dir := t.TempDir()
			cmd := command(t, t.TempDir(), "demo")
			cmd.Env = append(os.Environ(), "TMPDIR="+dir)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(30 * time.Second); names(t, dir) == "" && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(wait)
			_ = cmd.Process.Signal(sig)
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != want {
				t.Errorf("%v after %v: exit code %d, want %d", sig, wait, code, want)
			}
			if got := names(t, dir); got != "" {
				t.Errorf("%v after %v: left behind: %s", sig, wait, got)
			}
		}
	}
}

func TestDemoInSmallSpace(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "64")
	cmd := command(t, t.TempDir(), "demo")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if !strings.Contains(string(out), "instead of 256 MiB") || !strings.Contains(string(out), "are equal") {
		t.Errorf("%s", out)
	}
	if got := names(t, dir); got != "" {
		t.Errorf("left behind: %s", got)
	}
	cmd = command(t, t.TempDir(), "demo")
	cmd.Env = append(os.Environ(), "TMPDIR="+smallDisk(t, "20"))
	out, _ = cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 7 || !strings.Contains(string(out), "TMPDIR=FOLDER") {
		t.Errorf("20 MiB: exit code %d: %s", code, out)
	}
}

func TestDemoInSmallMemory(t *testing.T) {
	t.Parallel()
	if raceDetector {
		t.Skip("the race detector itself needs more memory")
	}
	dir := t.TempDir()
	cmd := command(t, t.TempDir())
	// RLIMIT_DATA, in KiB; Go does not start with an address space so small.
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", "ulimit -d 262144 && exec xtsdisk demo --image-size 64M"}
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "are equal") {
		t.Errorf("%v:\n%s", err, out)
	}
	if got := names(t, dir); got != "" {
		t.Errorf("left behind: %s", got)
	}
}

// nextOf returns the commands that a demo's output ends with.
func nextOf(t *testing.T, out string) []string {
	t.Helper()
	_, list, ok := strings.Cut(out, "Try next:\n")
	if !ok {
		t.Fatalf("no commands to try next:\n%s", out)
	}
	var commands []string
	for line := range strings.Lines(list) {
		commands = append(commands, strings.TrimSpace(line))
	}
	if len(commands) != 3 {
		t.Fatalf("%d commands to try next, want 3: %q", len(commands), commands)
	}
	return commands
}

// tryNext runs the demo by a shell command, and then exactly the commands that
// it prints, on a terminal where a passphrase is typed when asked for.
func tryNext(t *testing.T, dir string, env []string, demo string) {
	t.Helper()
	shell := func(line string) *exec.Cmd {
		cmd := exec.Command("/bin/sh", "-c", line)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
		return cmd
	}
	cmd := shell(demo + " --image-size 8M")
	noTerminal(cmd)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", demo, err, out)
	}
	commands := nextOf(t, string(out))
	for _, line := range commands {
		if !strings.HasPrefix(line, strings.TrimSuffix(demo, " demo")+" ") {
			t.Errorf("%q does not begin as %q does", line, demo)
		}
	}
	x := startOnTerminal(t, shell(commands[0]))
	x.expect("an image of 64 MiB")
	if code := x.wait(); code != 0 {
		t.Fatalf("%s: %d: %s", commands[0], code, x.text())
	}
	x = startOnTerminal(t, shell(commands[1]))
	x.expect("New passphrase for ")
	x.typeLine("secret")
	x.expect("again: ")
	x.typeLine("secret")
	if code := x.wait(); code != 0 {
		t.Fatalf("%s: %d: %s", commands[1], code, x.text())
	}
	x = startOnTerminal(t, shell(commands[2]))
	x.expect("Passphrase for ")
	x.typeLine("secret")
	x.expect("decrypted 64 MiB")
	if code := x.wait(); code != 0 {
		t.Fatalf("%s: %d: %s", commands[2], code, x.text())
	}
	words := strings.Fields(commands[2])
	where := func(name string) string {
		if filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(dir, name)
	}
	image := where(strings.TrimSuffix(words[len(words)-2], ".luks") + ".img")
	if err := compareFiles(t.Context(), image, where(words[len(words)-1])); err != nil {
		t.Error(err)
	}
}

func TestNextCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tryNext(t, dir, []string{"TMPDIR=" + t.TempDir()}, "xtsdisk demo")
	// Again: other names, since these are taken.
	code, out, _ := try(t, dir, "demo", "--image-size", "8M")
	if code != 0 || !strings.Contains(out, "--image demo2.img") {
		t.Errorf("the names are taken, and yet:\n%s", out)
	}
}

func TestNextCommandsOfGoRun(t *testing.T) {
	t.Parallel()
	testenv.Tool(t, "go")
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	before := names(t, root)
	tryNext(t, root, []string{"TMPDIR=" + t.TempDir()}, "go run ./cmd/xtsdisk demo")
	if after := names(t, root); after != before {
		t.Errorf("files appeared among the sources: %s", after)
	}
}

// A folder that cannot be written is not where the commands put their files.
func TestNextCommandsReadOnly(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "1")
	if err := remountReadOnly(dir); err != nil {
		t.Fatal(err)
	}
	temp := t.TempDir()
	cmd := command(t, dir, "demo", "--image-size", "8M")
	cmd.Env = append(os.Environ(), "TMPDIR="+temp, "HOME="+dir)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if next := nextOf(t, string(out)); !strings.Contains(next[0], "--image "+temp+"/demo.img") {
		t.Errorf("%q", next)
	}
}
