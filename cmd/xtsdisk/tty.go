package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"

	"github.com/xtsdisk/xtsdisk/internal/secret"
)

// maxTyped bounds a typed line: more than a terminal passes on at once.
const maxTyped = 4096

const noTerminalHint = "without a terminal, give the passphrase by --key-file FILE, --passphrase-file FILE or --passphrase-fd N"

// prompt asks on the controlling terminal, whatever the standard streams are,
// and reads one line without echo. It returns when the context ends.
func prompt(a *app, text string) (*secret.Buffer, error) {
	in, out, err := openTerminal()
	if err != nil {
		return nil, usagef(noTerminalHint, "there is no terminal to ask for the passphrase on")
	}
	defer closeQuietly(in)
	if out != in {
		defer closeQuietly(out)
	}
	if err := cancelled(a.ctx); err != nil {
		return nil, err
	}
	back, err := echoOff(in)
	if err != nil {
		return nil, fmt.Errorf("switch the terminal's echo off: %w", err)
	}
	restore := atKill(back)
	defer func() {
		restore()
		fmt.Fprintln(out)
	}()
	fmt.Fprint(out, visible(text))

	type answer struct {
		buf *secret.Buffer
		err error
	}
	ch := make(chan answer, 1)
	go func() {
		buf, err := readLine(in)
		ch <- answer{buf, err}
	}()
	select {
	case <-a.ctx.Done():
		// The read stays blocked; the process is about to end.
		return nil, cancelCause(a.ctx)
	case got := <-ch:
		return got.buf, got.err
	}
}

// promptTwice asks for a new passphrase until both answers agree.
func promptTwice(a *app, what string, allowEmpty bool) (*secret.Buffer, error) {
	const tries = 3
	for try := 1; ; try++ {
		first, err := prompt(a, "New passphrase for "+what+": ")
		if err != nil {
			return nil, err
		}
		if first.Len() == 0 && !allowEmpty {
			first.Destroy()
			return nil, refusef("type a passphrase, or use a key file: --key-file FILE", "an empty passphrase protects nothing")
		}
		second, err := prompt(a, "The same again: ")
		if err != nil {
			first.Destroy()
			return nil, err
		}
		same := bytes.Equal(first.Bytes(), second.Bytes())
		second.Destroy()
		if same {
			return first, nil
		}
		first.Destroy()
		if try == tries {
			return nil, &failure{exitPassphrase, fmt.Errorf("the two passphrases differed %d times", tries), ""}
		}
		a.note("the two differ; once more")
	}
}

// readLine reads up to a newline, which it drops, or the end of input.
func readLine(f *os.File) (*secret.Buffer, error) {
	whole := secret.New(maxTyped)
	defer whole.Destroy()
	line, n := whole.Bytes(), 0
	for {
		if n == len(line) {
			return nil, usagef("use --key-file FILE for longer ones", "the passphrase is longer than %d bytes", maxTyped-1)
		}
		got, err := f.Read(line[n : n+1])
		if got == 0 && n == 0 {
			return nil, &failure{exitPassphrase, fmt.Errorf("no passphrase was typed"), noTerminalHint}
		}
		if got > 0 && line[n] != '\n' && err == nil {
			n++
			continue
		}
		if runtime.GOOS == "windows" && n > 0 && line[n-1] == '\r' {
			n--
		}
		buf := secret.New(n)
		copy(buf.Bytes(), line)
		return buf, nil
	}
}
