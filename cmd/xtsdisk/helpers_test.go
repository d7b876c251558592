package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// fast are the options of a key derivation that takes no time.
var fast = []string{"--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"}

// command is the program for tests in Go, in a folder of its own, without a
// terminal.
func command(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath("xtsdisk")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	noTerminal(cmd)
	return cmd
}

// try runs the program and returns exit code, stdout and stderr.
func try(t *testing.T, dir string, args ...string) (int, string, string) {
	t.Helper()
	cmd := command(t, dir, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Fatal(err)
		}
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

func write(t *testing.T, name string, contents []byte) {
	t.Helper()
	if err := os.WriteFile(name, contents, 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	contents, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return contents
}

// image is some data whose sectors differ.
func image(n int) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return data
}

// with joins options and arguments; append could share their memory.
func with(options []string, args ...string) []string { return slices.Concat(options, args) }

// names lists a folder.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return strings.Join(list, " ")
}

// luksOf makes a volume of an image, with the passphrase "secret" in key.
func luksOf(t *testing.T, dir string, data []byte) string {
	t.Helper()
	write(t, filepath.Join(dir, "key"), []byte("secret"))
	write(t, filepath.Join(dir, "disk.img"), data)
	if code, _, msg := try(t, dir, with(fast, "encrypt", "--key-file", "key", "disk.img", "disk.luks")...); code != 0 {
		t.Fatal(msg)
	}
	return filepath.Join(dir, "disk.luks")
}

// stuck is a program that does not get done with the first signal.
func stuck() {
	withSignals(context.Background())
	defer atKill(func() { fmt.Println("undone") })()
	fmt.Println("ready")
	for {
		time.Sleep(time.Hour)
	}
}
