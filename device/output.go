package device

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// OutputOptions says what an Output makes and whether it may replace a file.
type OutputOptions struct {
	CreateOptions
	// Replace lets Commit replace a file of the same name, which keeps its
	// contents until then. Without it a file that exists, or that appears
	// before Commit, gives an error that is fs.ErrExist and stays.
	Replace bool
}

// Output is a new file under a temporary name in the folder where it belongs.
// Commit publishes it, Abort removes it; a crash at any time leaves, under
// the final name, either what was there before or the whole new file.
//
// A process that is killed leaves the temporary file, ".NAME.RANDOM.partial".
// An Output is not for concurrent use, but its Device is.
type Output struct {
	dir       Dir
	dev       Device
	temp      string
	name      string
	replace   bool
	published bool // the file has its name: nothing to remove
	done      bool
}

// NewOutput creates the temporary file. dir stays the caller's to close, after
// Commit or Abort.
func NewOutput(dir Dir, name string, o OutputOptions) (*Output, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if !o.Replace {
		taken, err := dir.Exists(name)
		if err != nil {
			return nil, err
		}
		if taken {
			return nil, fmt.Errorf("create %s: %w", name, fs.ErrExist)
		}
	}
	for tries := 0; ; tries++ {
		temp := tempName(name)
		dev, err := dir.Create(temp, o.CreateOptions)
		if errors.Is(err, fs.ErrExist) && tries < 100 {
			continue
		}
		if err != nil {
			return nil, err
		}
		return &Output{dir: dir, dev: dev, temp: temp, name: name, replace: o.Replace}, nil
	}
}

// tempName returns a hidden name, no longer than the 255 bytes that file
// systems take.
func tempName(name string) string {
	var random [6]byte
	rand.Read(random[:]) // never fails: crypto/rand
	suffix := "." + hex.EncodeToString(random[:]) + ".partial"
	return "." + strings.ToValidUTF8(name[:min(len(name), 254-len(suffix))], "") + suffix
}

// Device is the file to write. Commit and Abort close it.
func (o *Output) Device() Device { return o.dev }

// Commit flushes the file, closes it, gives it its name and makes the name
// durable, in this order: a name must never be durable before the contents.
//
// After an error Abort is still needed. When the name could not be taken it
// removes the file; when only the last step failed, the file stays, complete
// under its name, but may be gone after a crash.
func (o *Output) Commit() error {
	if o.done || o.published {
		panic("device: Output.Commit called twice")
	}
	if err := o.dev.Flush(); err != nil {
		return err
	}
	if err := o.dev.Close(); err != nil { // some systems rename no open file
		return err
	}
	if err := o.dir.Rename(o.temp, o.name, o.replace); err != nil {
		return err
	}
	o.published = true
	if err := o.dir.Sync(); err != nil {
		return err
	}
	o.done = true
	return nil
}

// Abort closes and removes the file. After a Commit that succeeded, or a first
// Abort, it does nothing, so it can be deferred.
func (o *Output) Abort() error {
	if o.done {
		return nil
	}
	o.done = true
	err := o.dev.Close()
	if o.published {
		return err
	}
	return errors.Join(err, o.dir.Remove(o.temp))
}
