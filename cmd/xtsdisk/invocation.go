package main

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// modulePackage is what go run can be given anywhere.
const modulePackage = "github.com/xtsdisk/xtsdisk/cmd/xtsdisk@latest"

// invocation returns how this program was started, so that commands shown to
// the user run verbatim: "xtsdisk", "./xtsdisk", "go run ./cmd/xtsdisk".
func invocation(args []string) string {
	exe, err := os.Executable()
	if err == nil && underGoRun(exe) {
		if cmdline := parentArgs(); len(cmdline) > len(args) {
			head, tail := cmdline[:len(cmdline)-len(args)], cmdline[len(cmdline)-len(args):]
			if slices.Equal(tail, args) && len(head) >= 3 && filepath.Base(head[0]) == "go" && head[1] == "run" {
				return "go " + quoteAll(head[1:])
			}
		}
		if exists(filepath.Join("cmd", "xtsdisk", "main.go")) {
			return "go run ./cmd/xtsdisk"
		}
		return "go run " + modulePackage
	}
	return shellQuote(os.Args[0])
}

// underGoRun tells whether exe is a program that go run built: it lies in a
// temporary folder of the Go command or in its cache, for which go run sets no
// other mark.
func underGoRun(exe string) bool {
	dir := filepath.ToSlash(exe)
	if strings.Contains(dir, "/go-build") {
		return true
	}
	cache := os.Getenv("GOCACHE")
	if cache == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return false
		}
		cache = filepath.Join(base, "go-build")
	}
	rel, err := filepath.Rel(cache, exe)
	return err == nil && filepath.IsLocal(rel)
}

// parentArgs returns the command line of the parent process where the system
// tells it.
func parentArgs() []string {
	if runtime.GOOS != "linux" {
		return nil
	}
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(os.Getppid()) + "/cmdline")
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00")
}

func quoteAll(args []string) string {
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = shellQuote(arg)
	}
	return strings.Join(quoted, " ")
}
