package main

import (
	"context"
	"io"
	"os"
	"unicode/utf8"

	"golang.org/x/term"
)

// systemStdio is the process's own streams.
func systemStdio() stdio {
	return stdio{
		in:     os.Stdin,
		out:    os.Stdout,
		err:    os.Stderr,
		outTTY: term.IsTerminal(int(os.Stdout.Fd())),
		errTTY: term.IsTerminal(int(os.Stderr.Fd())),
	}
}

// interruptible makes a read that nobody feeds end with the context. The
// goroutine of the broken-off call keeps the caller's buffer: the process must
// be about to end.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

func (s interruptible) Read(p []byte) (int, error) {
	return await(s.ctx, func() (int, error) { return s.r.Read(p) })
}

// await returns what call does, or when the context ends; the call is then
// left behind.
func await[T any](ctx context.Context, call func() (T, error)) (T, error) {
	type result struct {
		got T
		err error
	}
	ch := make(chan result, 1)
	go func() {
		got, err := call()
		ch <- result{got, err}
	}()
	select {
	case r := <-ch:
		return r.got, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// textOnly lets text pass to a terminal and refuses anything else, which would
// garble it.
type textOnly struct {
	w       io.Writer
	started bool
}

func (t *textOnly) Write(p []byte) (int, error) {
	text := p
	for n := 0; t.started && n < utf8.UTFMax-1 && len(text) > 0 && !utf8.RuneStart(text[0]); n++ {
		text = text[1:] // the rest of a character that the last write cut
	}
	t.started = true
	if !isText(text) {
		return 0, refusef("send it to a file or a program: add  > FILE  or  | hexdump -C | less",
			"the output is binary and would garble the terminal")
	}
	return t.w.Write(p)
}

// isText tells whether p is UTF-8 without control characters. A character cut
// off at the end may be text.
func isText(p []byte) bool {
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		switch {
		case r == utf8.RuneError && n == 1:
			return !utf8.FullRune(p)
		case r < ' ' && r != '\n' && r != '\t' && r != '\r' && r != '\f' && r != '\b', r >= 0x7f && r < 0xa0:
			return false
		}
		p = p[n:]
	}
	return true
}

// dataOut is stdout for plaintext.
func (a *app) dataOut() io.Writer {
	if a.io.outTTY {
		return &textOnly{w: a.io.out}
	}
	return a.io.out
}
