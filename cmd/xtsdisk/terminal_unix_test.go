//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// noTerminal starts a command in a session of its own, so that it finds no
// terminal to ask on, even if the tests run on one.
func noTerminal(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
