package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// The rules for messages:
//
//   - stdout carries only what was asked for: data, a report, a JSON document.
//     Everything else goes to stderr.
//   - A message says what is wrong with names and values, in one line that
//     begins with "xtsdisk: ". What to do next follows in an indented line of
//     its own; every error that a person can do something about has one.
//   - Warnings begin with "xtsdisk: warning: ", notes with "xtsdisk: ".
//   - With --quiet there are only errors. With --json the error is also a
//     document on stdout.
//   - Names and values are written visibly: a file's name can hold anything, and
//     must neither end the line nor reach the terminal as a command.

// note tells the user something that is no problem.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.messages(), "xtsdisk: %s\n", visible(fmt.Sprintf(format, args...)))
	}
}

// messages is stderr, or what writes above the progress bar while one is there.
func (a *app) messages() io.Writer {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.aboveBar != nil {
		return a.aboveBar
	}
	return a.io.err
}

func (a *app) setMessages(w io.Writer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.aboveBar = w
}

// detail is a note for --verbose.
func (a *app) detail(format string, args ...any) {
	if a.verbose {
		a.note(format, args...)
	}
}

// warn tells of something that may hurt later.
func (a *app) warn(message string) { a.note("warning: %s", message) }

// fail reports the error that ended a command and returns its exit code.
func (a *app) fail(cmd *cobra.Command, args []string, err error) exitCode {
	cause := cancelled(a.ctx)
	code := codeOf(err, cause)
	if cause != nil {
		err = cause
	}
	if said := (*reported)(nil); errors.As(err, &said) {
		return code
	}
	message := oneLine(err)
	verb := verbName(cmd)
	if verb != "" {
		message = verb + ": " + message
	}
	hint := a.hint(cmd, err)
	if code != exitClosedPipe { // nobody is there to read it, and "| head" is no mistake
		fmt.Fprintf(a.io.err, "xtsdisk: %s\n", visible(message))
		if hint != "" {
			fmt.Fprintf(a.io.err, "  %s\n", strings.Join(visibleLines(hint), "\n  "))
		}
	}
	if a.json || wantsJSON(args) {
		_ = printJSON(a.io.out, errorReport{schemaVersion, errorBody{int(code), code.name(), message, hint}})
	}
	return code
}

// hint says what to do about an error: the hint it brings itself, or what its
// kind calls for.
func (a *app) hint(cmd *cobra.Command, err error) string {
	var sig *signalError
	if errors.As(err, &sig) {
		return ""
	}
	var f *failure
	if errors.As(err, &f) && f.hint != "" {
		return f.hint
	}
	for _, h := range hints {
		if errors.Is(err, h.err) {
			return h.text
		}
	}
	if codeOf(err, nil) == exitUsage {
		return a.path(cmd) + " --help shows how"
	}
	return ""
}

// verbName is the command without the program's name: "key test".
func verbName(cmd *cobra.Command) string {
	if cmd == nil {
		return ""
	}
	_, verb, _ := strings.Cut(cmd.CommandPath(), " ")
	return verb
}

// schemaVersion is the "schema" of every JSON document. It changes when a
// field changes its meaning or goes away; new fields may come at any time.
const schemaVersion = 1

type errorReport struct {
	Schema int       `json:"schema"`
	Error  errorBody `json:"error"`
}

type errorBody struct {
	Code    int    `json:"code"`
	Name    string `json:"name"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// wantsJSON also finds --json on command lines that could not be parsed, and
// where there is no such option: who asks for JSON reads nothing else.
func wantsJSON(args []string) bool {
	for _, arg := range args {
		if arg == "--" {
			return false
		}
		if arg == "--json" {
			return true
		}
	}
	return false
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// fail-makers: an error with its exit code and what to do about it ("" leaves
// that to the verb's --help or to nothing).

func usagef(hint, format string, args ...any) error {
	return &failure{exitUsage, fmt.Errorf(format, args...), hint}
}

func refusef(hint, format string, args ...any) error {
	return &failure{exitRefused, fmt.Errorf(format, args...), hint}
}

// withHint adds what to do to an error from below and keeps its exit code.
func withHint(err error, format string, args ...any) error {
	return &failure{codeOf(err, nil), err, fmt.Sprintf(format, args...)}
}

// naming adds the name of what an error is about, if it does not have it.
func naming(name string, err error) error {
	if strings.Contains(err.Error(), name) {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// plainPathError drops the operation and path of an *fs.PathError, for
// messages that name the file in their own words.
func plainPathError(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// cancelCause is what a verb returns when its context ended.
func cancelCause(ctx context.Context) error {
	if err := cancelled(ctx); err != nil {
		return err
	}
	return ctx.Err()
}

// closeQuietly is for files that were only read.
func closeQuietly(c io.Closer) { _ = c.Close() }

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
