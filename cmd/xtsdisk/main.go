// Command xtsdisk encrypts and decrypts disk images and makes and opens LUKS
// volumes, in user space and without root. docs/cli.md describes it.
package main

import (
	"context"
	"io"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"github.com/xtsdisk/xtsdisk/device/volume"
	"github.com/xtsdisk/xtsdisk/internal/secret"
)

// stdio is what a run talks to. The tty flags tell which of the three are
// terminals; a passphrase prompt does not use them, it opens the controlling
// terminal itself.
type stdio struct {
	in       io.Reader
	out, err io.Writer

	outTTY, errTTY bool
}

// app is one run of the program: what all verbs share.
type app struct {
	ctx  context.Context
	io   stdio
	self string // how the program was invoked, for commands shown to the user
	json bool   // the verb was asked for a JSON report

	inside volume.Inside // where in VOL the volume lies: --at, --partition

	quiet   bool
	verbose bool
	level   string // --level

	helpErr error // of writing help, which cobra does not pass on

	unlocked sync.Once // see tellUnlocked

	mu       sync.Mutex
	aboveBar io.Writer // nil without a progress bar
}

// The command table: one file per verb. A verb is here once it works whole.
var verbs = []struct {
	group string
	make  func(*app) *cobra.Command
}{
	{groupImages, newDemo},
	{groupImages, newEncrypt},
	{groupImages, newDecrypt},
	{groupVolumes, newFormat},
	{groupVolumes, newDump},
	{groupVolumes, newIdentify},
	{groupVolumes, newDoctor},
	{groupVolumes, newConfig},
	{groupVolumes, newHeader},
	{groupUse, newCat},
	{groupKeys, newKey},
	{groupKeys, newToken},
	{groupMeasure, newVersion},
	{groupNone, newCompletion},
	{groupNone, newMan},
	{groupNone, newDocs},
}

func main() {
	os.Exit(mainExit())
}

// mainExit is the whole program; the tests run it under the name xtsdisk.
func mainExit() int {
	// Without this a crash would write keys into a core file. A system that
	// has no such limit is not worth a message.
	_ = secret.DisableCoreDumps()
	ctx := withSignals(context.Background())
	return run(ctx, os.Args[1:], systemStdio())
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, std stdio) int {
	a := &app{ctx: ctx, io: std, self: invocation(args)}
	root := newRoot(a)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = a.helpErr
	}
	if err == nil {
		return int(exitOK)
	}
	return int(a.fail(cmd, args, err))
}
