package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/internal/lock"
)

// kind is what a path leads to, as far as jobs differ in it.
type kind int

const (
	missing kind = iota
	regular
	block
	stream // a pipe or a character device: bytes in order
)

// fileState is what a job needs to know about a path, and sees again whether
// it changed.
type fileState struct {
	kind    kind
	size    int64 // of a regular file
	changed time.Time
}

// system is what the jobs reach the outside by. Tests put recording devices
// and folders in its place.
type system struct {
	state      func(path string) (fileState, error)
	open       func(path string, o device.FileOptions) (device.Device, error)
	folder     func(path string, o device.FileOptions) (device.Dir, error)
	same       func(a, b string) (bool, error)
	sameOpen   func(f *os.File, path string) (bool, error)
	checkRead  func(path string) error
	checkWrite func(path string) error
	hold       func(path string, exclusive bool) (release func(), err error)
	holdHeader func(ctx context.Context, path string) (release func(), err error)
	lockHeader func(ctx context.Context, path string) (release func(), err error) // for changing it
	checkHeld  func(path string) error                                            // who has the header locked may write
}

var host = system{
	state: hostState,
	open: func(path string, o device.FileOptions) (device.Device, error) {
		f, err := device.OpenFile(path, o)
		if err != nil {
			return nil, err // not a nil *File in an interface
		}
		return f, nil
	},
	folder:     device.OSDir,
	same:       lock.Same,
	sameOpen:   lock.SameOpen,
	checkRead:  lock.CheckRead,
	checkWrite: lock.CheckWrite,
	hold:       lock.HoldPath,
	holdHeader: func(ctx context.Context, path string) (func(), error) { return hostHoldHeader(ctx, path, false) },
	lockHeader: func(ctx context.Context, path string) (func(), error) { return hostHoldHeader(ctx, path, true) },
	checkHeld:  lock.CheckHeld,
}

func hostState(path string) (fileState, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		// A symbolic link that leads nowhere is there all the same.
		if _, err := os.Lstat(path); err == nil {
			return fileState{}, fmt.Errorf("%s: %w: a symbolic link that leads nowhere", path, ErrKind)
		}
		return fileState{kind: missing}, nil
	}
	if err != nil {
		return fileState{}, err
	}
	st := fileState{size: info.Size(), changed: info.ModTime()}
	var known bool
	if st.kind, known = kindOf(info.Mode()); !known {
		return st, fmt.Errorf("%s: %w: it is %s", path, ErrKind, kindName(info.Mode()))
	}
	return st, nil
}

func kindOf(mode fs.FileMode) (kind, bool) {
	switch {
	case mode.IsRegular():
		return regular, true
	case mode&os.ModeCharDevice != 0, mode&os.ModeNamedPipe != 0:
		return stream, true
	case mode&os.ModeDevice != 0:
		return block, true
	}
	return missing, false
}

// noDevice refuses to make a file where only device nodes belong: /dev is kept
// in memory, and who names a disk that is not there means another one.
func noDevice(path string) error {
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	if dir = filepath.ToSlash(dir) + "/"; !strings.HasPrefix(dir, "/dev/") || strings.HasPrefix(dir, "/dev/shm/") {
		return nil
	}
	return fmt.Errorf("%s: %w: there is no such device", path, os.ErrNotExist)
}

func kindName(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a folder"
	case mode&os.ModeSocket != 0:
		return "a socket"
	}
	return "mode " + mode.String()
}

// headerPatience is how long a header that another program has locked is
// waited for. Those locks are meant to be brief.
const headerPatience = 10 * time.Second

func hostHoldHeader(ctx context.Context, path string, exclusive bool) (func(), error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, headerPatience, errors.New("waited long enough"))
	defer cancel()
	release, err := lock.HoldHeader(ctx, f, exclusive)
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { release(); f.Close() }, nil
}

// stdStream is the path that stands for standard input or output.
const stdStream = "-"

// nopCloser keeps the caller's stream open.
type nopCloser struct{ io.Reader }

func (nopCloser) Close() error { return nil }
