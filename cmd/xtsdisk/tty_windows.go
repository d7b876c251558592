package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// openTerminal opens the console.
func openTerminal() (in, out *os.File, err error) {
	if in, err = os.OpenFile("CONIN$", os.O_RDWR, 0); err != nil {
		return nil, nil, err
	}
	if out, err = os.OpenFile("CONOUT$", os.O_RDWR, 0); err != nil {
		closeQuietly(in)
		return nil, nil, err
	}
	return in, out, nil
}

// echoOff stops the echo of what is typed; the result restores the console.
func echoOff(f *os.File) (func(), error) {
	console := windows.Handle(f.Fd())
	var old uint32
	if err := windows.GetConsoleMode(console, &old); err != nil {
		return nil, err
	}
	quiet := old&^windows.ENABLE_ECHO_INPUT | windows.ENABLE_LINE_INPUT | windows.ENABLE_PROCESSED_INPUT
	if err := windows.SetConsoleMode(console, quiet); err != nil {
		return nil, err
	}
	return func() { _ = windows.SetConsoleMode(console, old) }, nil
}

// namesTerminal finds no terminal: consoles are not named like files here.
func namesTerminal(string) bool { return false }

// inherited leaves it to the read to find out: a descriptor is a handle here,
// and its number cannot be mistaken for another's.
func inherited(int) bool { return true }
