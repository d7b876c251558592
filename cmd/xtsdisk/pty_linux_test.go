package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A terminal is a pseudo-terminal on which a command runs: its controlling
// terminal, its stdin and stderr, and its stdout unless that is set.
type terminal struct {
	t      *testing.T
	master *os.File
	cmd    *exec.Cmd

	mu     sync.Mutex
	screen bytes.Buffer
	seen   int // how much of it expect has consumed
	eof    chan struct{}
}

func startOnTerminal(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	cmd.Stdin, cmd.Stderr = slave, slave
	if cmd.Stdout == nil {
		cmd.Stdout = slave
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, master: master, cmd: cmd, eof: make(chan struct{})}
	go term.read()
	return term
}

func (x *terminal) read() {
	defer close(x.eof)
	p := make([]byte, 4096)
	for {
		n, err := x.master.Read(p)
		x.mu.Lock()
		x.screen.Write(p[:n])
		x.mu.Unlock()
		if err != nil { // EIO once the last program has closed its end
			return
		}
	}
}

// text is all that was shown so far.
func (x *terminal) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.screen.String()
}

// expect waits until text has been shown after what the last call found.
func (x *terminal) expect(text string) {
	x.t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for {
		shown := x.text()
		if i := strings.Index(shown[x.seen:], text); i >= 0 {
			x.seen += i + len(text)
			return
		}
		select {
		case <-x.eof:
			if shown = x.text(); !strings.Contains(shown[x.seen:], text) {
				x.t.Fatalf("the program ended without showing %q:\n%s", text, shown)
			}
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			x.t.Fatalf("%q was not shown:\n%s", text, shown)
		}
	}
}

func (x *terminal) typeLine(line string) {
	x.t.Helper()
	if _, err := io.WriteString(x.master, line+"\n"); err != nil {
		x.t.Fatal(err)
	}
}

// echoes tells whether the terminal shows what is typed.
func (x *terminal) echoes() bool {
	x.t.Helper()
	mode, err := unix.IoctlGetTermios(int(x.master.Fd()), unix.TCGETS)
	if err != nil {
		x.t.Fatal(err)
	}
	return mode.Lflag&unix.ECHO != 0
}

// wait returns the exit code once the program has ended.
func (x *terminal) wait() int {
	x.t.Helper()
	kill := time.AfterFunc(60*time.Second, func() { _ = x.cmd.Process.Kill() })
	defer kill.Stop()
	_ = x.cmd.Wait()
	<-x.eof
	return x.cmd.ProcessState.ExitCode()
}
