package volume

import (
	"context"
	"errors"
	"fmt"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/internal/probe"
	"github.com/xtsdisk/xtsdisk/luks"
)

// diskTarget is a block device, written in place.
//
// An interrupted run must leave nothing that opens or mounts as if it were
// whole, neither the old contents nor the new. So what the old contents are
// recognised by goes first, and what the new ones are recognised by comes
// last. Between the steps everything is flushed, since a device may write out
// what it was given in any order.
type diskTarget struct {
	path    string
	dev     device.Device
	release func()
}

func (r *run) openDiskTarget(o targetOptions) (target, error) {
	release, err := r.hold(o.path, true)
	if err != nil {
		return nil, err
	}
	dev, err := r.open(o.path, device.FileOptions{Direct: o.direct})
	if err != nil {
		release()
		return nil, err
	}
	return &diskTarget{path: o.path, dev: dev, release: release}, nil
}

func (t *diskTarget) close() {
	t.dev.Close()
	t.release()
}

func (t *diskTarget) store(ctx context.Context, r *run, res result) error {
	room := t.dev.Size() - res.offset
	if room < 0 || res.size > room {
		return fmt.Errorf("%s: %w: it has %d bytes, and the new contents need %d", t.path, ErrSize, t.dev.Size(), res.offset+max(res.size, 0))
	}
	if res.size >= 0 {
		t.warnRest(r, res, res.size, room)
	}
	err := t.overwrite(ctx, r, res, device.NewSection(t.dev, res.offset, room))
	if res.size >= 0 {
		return err
	}
	if errors.Is(err, device.ErrOutOfRange) {
		return fmt.Errorf("%s: %w: it has %d bytes for the data, and the source has more: %w", t.path, ErrSize, room, err)
	}
	if err == nil {
		t.warnRest(r, res, r.Bytes, room)
	}
	return err
}

// warnRest warns if the n bytes of data are not all that the volume will have.
func (t *diskTarget) warnRest(r *run, res result, n, room int64) {
	if res.header != nil && n < room {
		r.warnf("the volume spans all of %s: what follows the first %d bytes of its data is not initialised", t.path, n)
	}
}

func (t *diskTarget) overwrite(ctx context.Context, r *run, res result, data device.Device) error {
	if res.header != nil {
		if err := r.sync(func() error { return clearForHeader(t.dev, res.header) }); err != nil {
			return err
		}
		if err := res.copy(ctx, device.DeviceSink(data), false); err != nil {
			return err
		}
		// Write flushes before it writes the headers: that makes the data
		// durable, too.
		return r.sync(func() error { return res.header.Write(ctx, t.dev) })
	}
	if err := r.sync(func() error { return forget(data) }); err != nil {
		return err
	}
	late := newLateHead(data)
	if err := res.copy(ctx, device.DeviceSink(late), false); err != nil {
		return err
	}
	return r.sync(late.finish)
}

// clearForHeader prepares a device, or an old file, for luks.Prepared.Write:
// what lies there is forgotten, then all in front of the data is zeros. The
// order matters: until the old contents are forgotten for good they must stay
// as they were.
func clearForHeader(dev device.Device, header *luks.Prepared) error {
	if err := forget(dev); err != nil {
		return err
	}
	return dev.WriteZeroes(0, header.DataOffset())
}

// forget makes sure that nothing is recognised on dev any more, and returns
// when that is durable.
func forget(dev device.Device) error {
	size := dev.Size()
	for _, off := range probe.Places(dev, size) {
		if err := dev.WriteZeroes(off, min(probe.SectorSize, size-off)); err != nil {
			return err
		}
	}
	return dev.Flush()
}

// headSize is how much lateHead keeps back: nothing is recognised without the
// first MiB of it, but by tools that search for the copies which some formats
// keep elsewhere.
const headSize = 1 << 20

// lateHead is a device whose first MiB is kept in memory until finish.
type lateHead struct {
	device.Device
	head *device.Memory
}

func newLateHead(d device.Device) *lateHead {
	return &lateHead{Device: d, head: device.NewMemory(min(headSize, d.Size()), d.SectorSize())}
}

// split divides a range at the end of the head.
func (l *lateHead) split(off, n int64) (inHead int64) {
	return max(0, min(n, l.head.Size()-off))
}

// ReadAt implements device.Device.
func (l *lateHead) ReadAt(p []byte, off int64) (int, error) {
	k := l.split(off, int64(len(p)))
	if k > 0 {
		if n, err := l.head.ReadAt(p[:k], off); n < int(k) {
			return n, err
		}
	}
	if k == int64(len(p)) && k > 0 {
		return int(k), nil
	}
	n, err := l.Device.ReadAt(p[k:], off+k)
	return int(k) + n, err
}

// WriteAt implements device.Device.
func (l *lateHead) WriteAt(p []byte, off int64) (int, error) {
	k := l.split(off, int64(len(p)))
	if k > 0 {
		if n, err := l.head.WriteAt(p[:k], off); err != nil {
			return n, err
		}
	}
	if k == int64(len(p)) {
		return int(k), nil
	}
	n, err := l.Device.WriteAt(p[k:], off+k)
	return int(k) + n, err
}

// WriteZeroes implements device.Device.
func (l *lateHead) WriteZeroes(off, n int64) error {
	k := l.split(off, n)
	if k > 0 {
		if err := l.head.WriteZeroes(off, k); err != nil {
			return err
		}
	}
	if k == n {
		return nil
	}
	return l.Device.WriteZeroes(off+k, n-k)
}

// Discard implements device.Device: it does nothing, as it may.
func (l *lateHead) Discard(int64, int64) error { return nil }

// finish writes the head and returns when all is durable. The sectors by which
// the contents are recognised are written once everything else is durable.
func (l *lateHead) finish() error {
	size := l.head.Size()
	head := make([]byte, size)
	if _, err := l.head.ReadAt(head, 0); err != nil && size > 0 && !atEnd(err) {
		return err
	}
	places := probe.Places(l.head, size)
	last := make([][]byte, len(places))
	for i, off := range places {
		sector := head[off:min(off+probe.SectorSize, size)]
		last[i] = append([]byte(nil), sector...)
		clear(sector)
	}
	if _, err := l.Device.WriteAt(head, 0); err != nil {
		return err
	}
	if err := l.Device.Flush(); err != nil || len(places) == 0 {
		return err
	}
	for i, off := range places {
		if _, err := l.Device.WriteAt(last[i], off); err != nil {
			return err
		}
	}
	return l.Device.Flush()
}
