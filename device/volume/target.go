package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/internal/probe"
	"github.com/xtsdisk/xtsdisk/luks"
)

// result is what a job makes: a header or none, and data.
type result struct {
	header *luks.Prepared // nil: none
	offset int64          // of the data in its file or device, bytes
	size   int64          // of the data, bytes; -1: not known beforehand
	sparse bool           // zeros are to be holes

	// copy writes the data; offset 0 of sink is where it begins. fresh says
	// that sink reads as zeros already.
	copy func(ctx context.Context, sink device.Sink, fresh bool) error
}

// target is where a job's result goes. The three kinds differ in what makes an
// interrupted run harmless.
type target interface {
	// store writes the result and makes it durable.
	store(ctx context.Context, r *run, res result) error
	// close releases what was opened to prepare store. It is called in any case.
	close()
}

// targetOptions are what openTarget needs to know of a job.
type targetOptions struct {
	path   string
	stdin  io.Reader // of the job: what "-" among inputs means
	stdout io.Writer
	force  bool
	direct bool
	inputs []string // paths that must not be the target; "" is none
}

// openTarget checks that the target may be written, in the order in which the
// answers matter to the user. Nothing is created or written yet.
func (r *run) openTarget(ctx context.Context, o targetOptions) (target, error) {
	if err := r.checkInputs(o); err != nil {
		return nil, err
	}
	if o.path == stdStream {
		if o.stdout == nil {
			return nil, fmt.Errorf("%w: the target is standard output and there is none", ErrOptions)
		}
		return &streamTarget{w: o.stdout}, nil
	}
	st, err := r.state(o.path)
	if err != nil {
		return nil, err
	}
	switch st.kind {
	case missing:
		if err := noDevice(o.path); err != nil {
			return nil, err
		}
		return r.openFileTarget(o, false)
	case stream:
		f, err := openStream(ctx, o.path, os.O_WRONLY)
		if err != nil {
			return nil, err
		}
		return &streamTarget{w: f, file: f}, nil
	}
	if err := r.checkWrite(o.path); err != nil {
		return nil, err
	}
	if !o.force {
		return nil, r.exists(o.path)
	}
	if st.kind == regular {
		return r.openFileTarget(o, true)
	}
	return r.openDiskTarget(o)
}

// checkInputs returns ErrSame if the target is one of the inputs, by whatever
// name: standard input and output can be files, too.
func (r *run) checkInputs(o targetOptions) error {
	for _, input := range o.inputs {
		if input == "" {
			continue
		}
		same, err := r.isTarget(input, o)
		if err != nil {
			return err
		}
		if same {
			return fmt.Errorf("%s and %s: %w", streamName(input, "standard input"), streamName(o.path, "standard output"), ErrSame)
		}
	}
	return nil
}

func (r *run) isTarget(input string, o targetOptions) (bool, error) {
	if input != stdStream && o.path != stdStream {
		return r.same(input, o.path)
	}
	stdin, isFile := o.stdin.(*os.File)
	if input == stdStream && !isFile {
		return false, nil
	}
	if o.path != stdStream {
		return r.sameOpen(stdin, o.path)
	}
	stdout, isFile := o.stdout.(*os.File)
	if !isFile {
		return false, nil
	}
	if input != stdStream {
		return r.sameOpen(stdout, input)
	}
	return sameStreams(stdin, stdout)
}

// sameStreams tells whether both are one file or disk.
func sameStreams(a, b *os.File) (bool, error) {
	infoA, err := a.Stat()
	if err != nil {
		return false, err
	}
	infoB, err := b.Stat()
	if err != nil {
		return false, err
	}
	kind, known := kindOf(infoA.Mode())
	return known && kind != stream && os.SameFile(infoA, infoB), nil
}

func streamName(path, name string) string {
	if path == stdStream {
		return name
	}
	return path
}

// exists is ErrExists with what lies there.
func (r *run) exists(path string) error {
	d, err := r.open(path, device.FileOptions{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("%s: %w", path, ErrExists)
	}
	defer d.Close()
	if found := names(probe.Identify(d, d.Size())); found != "" {
		return fmt.Errorf("%s: %w and holds %s", path, ErrExists, found)
	}
	return fmt.Errorf("%s: %w", path, ErrExists)
}

func names(found []probe.Found) string {
	var text string
	for i, f := range found {
		if i > 0 {
			text += ", "
		}
		text += f.Name
	}
	return text
}

// fileTarget is a new file: it has its name only when it is complete.
type fileTarget struct {
	dir     device.Dir
	name    string
	path    string
	replace bool
}

// openFileTarget follows symbolic links to a file that is to be replaced, so
// that the link stays and what it leads to is replaced.
func (r *run) openFileTarget(o targetOptions, replace bool) (target, error) {
	path := o.path
	if replace {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
	}
	dir, err := r.folder(filepath.Dir(path), device.FileOptions{Direct: o.direct})
	if err != nil {
		return nil, err
	}
	return &fileTarget{dir: dir, name: filepath.Base(path), path: o.path, replace: replace}, nil
}

func (t *fileTarget) close() { t.dir.Close() }

func (t *fileTarget) store(ctx context.Context, r *run, res result) error {
	size := res.size
	if size >= 0 {
		size += res.offset
	}
	var out *device.Output
	// Reserving the space is a part of writing the data.
	err := r.timed(PhaseData, &r.DataTime, func() (err error) {
		out, err = device.NewOutput(t.dir, t.name, device.OutputOptions{
			CreateOptions: device.CreateOptions{Size: size, Mode: 0o600, Sparse: res.sparse},
			Replace:       t.replace,
		})
		return err
	})
	if errors.Is(err, os.ErrExist) {
		return classify(err, ErrExists, os.ErrExist)
	}
	if err != nil {
		return err
	}
	err = t.fill(ctx, r, res, out)
	if err == nil {
		err = r.sync(out.Commit)
	}
	if err != nil {
		// A failed Abort leaves a file with a temporary name; both are told.
		return errors.Join(classify(err, ErrExists, os.ErrExist), out.Abort())
	}
	return nil
}

// fill writes header and data in any order and without flushing: nobody sees
// the file before Commit has flushed it.
func (t *fileTarget) fill(ctx context.Context, r *run, res result, out *device.Output) error {
	if res.header != nil {
		if err := res.header.Write(ctx, unflushed{out.Device()}); err != nil {
			return err
		}
	}
	return res.copy(ctx, device.DeviceSink(device.NewSection(out.Device(), res.offset, res.size)), true)
}

// unflushed leaves flushing to whoever flushes the device as a whole.
type unflushed struct{ device.Device }

// Flush does nothing.
func (unflushed) Flush() error { return nil }

// streamTarget is a pipe: header, then data.
type streamTarget struct {
	w    io.Writer
	file io.Closer // nil: the caller's
}

func (t *streamTarget) close() {
	if t.file != nil {
		t.file.Close()
	}
}

func (t *streamTarget) store(ctx context.Context, r *run, res result) error {
	sink := device.StreamSink(t.w)
	if err := t.storeHead(ctx, sink, res); err != nil {
		return err
	}
	if err := res.copy(ctx, sink, false); err != nil {
		return err
	}
	if t.file == nil {
		return nil
	}
	file := t.file
	t.file = nil
	return r.sync(file.Close)
}

// storeHead writes what lies in front of the data: the header, or zeros. It
// goes through device.Copy so that a pipe that nobody reads can be interrupted.
func (t *streamTarget) storeHead(ctx context.Context, sink device.Sink, res result) error {
	head, feed := io.Pipe()
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		var err error
		if res.header != nil {
			_, err = res.header.WriteTo(feed)
		} else {
			_, err = io.CopyN(feed, zeros{}, res.offset)
		}
		feed.CloseWithError(err)
	}()
	_, err := device.Copy(ctx, sink, device.StreamSource(head), device.CopyOptions{Size: res.offset})
	head.Close()
	<-fed
	return err
}

// zeros is an endless stream of them.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
