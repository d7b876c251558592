package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// signalError is the cause of a context that a signal cancelled.
type signalError struct{ sig syscall.Signal }

func (e *signalError) Error() string {
	switch e.sig {
	case syscall.SIGINT:
		return "interrupted (SIGINT)"
	case syscall.SIGTERM:
		return "terminated (SIGTERM)"
	case syscall.SIGHUP:
		return "the terminal went away (SIGHUP)"
	case syscall.SIGPIPE:
		return "the reader of the output went away (SIGPIPE)"
	}
	return e.sig.String()
}

// code is the shell's convention: 128 and the signal's number.
func (e *signalError) code() exitCode { return 128 + exitCode(e.sig) }

// withSignals returns a context that the first SIGINT, SIGTERM, SIGHUP or
// SIGPIPE cancels, with a *signalError as its cause, so that the verb cleans
// up and returns. A second one ends the process at once. A signal that was
// ignored when the program started stays ignored (nohup). The handlers stay to
// the end: a goroutine that still writes to a closed pipe would else end the
// process by SIGPIPE.
//
// SIGPIPE is among them so that a write to a closed pipe returns EPIPE
// instead of killing the process before temporary files are removed.
func withSignals(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	ch := make(chan os.Signal, 4)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE} {
		if !signal.Ignored(s) {
			signal.Notify(ch, s)
		}
	}
	go func() {
		for s := range ch {
			number, _ := s.(syscall.Signal)
			if ctx.Err() == nil {
				cancel(&signalError{number})
			} else if number != syscall.SIGPIPE { // each further write to the pipe sends one
				undoAll()
				os.Exit(128 + int(number))
			}
		}
	}()
	return ctx
}

// undos are what even a second signal must not leave behind: an echo that is
// off, a folder of temporary files.
var undos struct {
	sync.Mutex
	next int
	list map[int]func()
}

// atKill registers undo for the case that the process ends by a second signal.
// The result, to be called in any other case, runs it too, once.
func atKill(undo func()) func() {
	undos.Lock()
	defer undos.Unlock()
	if undos.list == nil {
		undos.list = map[int]func(){}
	}
	id := undos.next
	undos.next++
	undos.list[id] = undo
	return func() {
		undos.Lock()
		defer undos.Unlock() // a second signal meanwhile waits for undo to end
		if f := undos.list[id]; f != nil {
			delete(undos.list, id)
			f()
		}
	}
}

func undoAll() {
	undos.Lock()
	defer undos.Unlock()
	for _, undo := range undos.list {
		undo()
	}
}
