// Package testenv finds what tests need from outside (data, programs, CPU
// features) and makes sure that a missing piece is said aloud: a test that
// cannot run is skipped with the reason, and fails instead where the
// environment variable XTSDISK_REQUIRE (comma-separated names) lists it.
package testenv

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Data returns the path of a file or folder below XTSDISK_TESTDATA, which
// holds vectors, fixtures and images that are not in the repository. Without
// it the test is skipped, or fails if XTSDISK_REQUIRE lists "testdata".
func Data(tb testing.TB, name string) string {
	tb.Helper()
	root := os.Getenv("XTSDISK_TESTDATA")
	if root == "" {
		missing(tb, "testdata", "XTSDISK_TESTDATA is not set: "+name+" was not tried")
	}
	path := filepath.Join(root, filepath.FromSlash(name))
	if _, err := os.Stat(path); err != nil {
		missing(tb, "testdata", err.Error())
	}
	return path
}

// Tool returns the path of a program. Without it the test is skipped, or
// fails if XTSDISK_REQUIRE lists the program's name.
func Tool(tb testing.TB, name string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		for _, dir := range []string{"/usr/sbin", "/sbin"} { // Debian keeps them off a user's PATH
			if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return p
			}
		}
		missing(tb, name, "program "+name+" is not installed")
	}
	return path
}

// Feature skips the test unless ok, or fails it if XTSDISK_REQUIRE lists
// name. Names are CPU levels ("vaes512") or facilities ("root", "vm").
func Feature(tb testing.TB, ok bool, name string) {
	tb.Helper()
	if !ok {
		missing(tb, name, name+" is not available here")
	}
}

// Unxz returns the unpacked contents of an .xz file, by the program xz.
func Unxz(tb testing.TB, path string) []byte {
	tb.Helper()
	var out, msg bytes.Buffer
	cmd := exec.Command(Tool(tb, "xz"), "-dc", "--", path)
	cmd.Stdout, cmd.Stderr = &out, &msg
	if err := cmd.Run(); err != nil {
		tb.Fatalf("unpack %s: %v: %s", path, err, msg.String())
	}
	return out.Bytes()
}

func missing(tb testing.TB, name, why string) {
	tb.Helper()
	if slices.Contains(strings.Split(os.Getenv("XTSDISK_REQUIRE"), ","), name) {
		tb.Fatalf("required by XTSDISK_REQUIRE and missing: %s", why)
	}
	tb.Skip(why)
}
