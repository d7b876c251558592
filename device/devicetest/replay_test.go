package devicetest_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/device/devicetest"
)

func newRecord() *device.Record { return device.NewRecord(device.NewMemory(64<<10, 512)) }

func put(t *testing.T, d device.Device, b byte, off, n int) {
	t.Helper()
	if _, err := d.WriteAt(bytes.Repeat([]byte{b}, n), int64(off)); err != nil {
		t.Fatal(err)
	}
}

func flush(t *testing.T, d device.Device) {
	t.Helper()
	if err := d.Flush(); err != nil {
		t.Fatal(err)
	}
}

func at(m *device.Memory, off int) byte {
	b := make([]byte, 1)
	m.ReadAt(b, int64(off))
	return b[0]
}

// A record with a header that must never be there before its data, and must be
// there once done: right with both flushes, wrong without either.
func TestReplayEverySync(t *testing.T) {
	r := newRecord()
	put(t, r, 1, 4096, 3000) // data
	flush(t, r)
	put(t, r, 2, 0, 16) // header
	flush(t, r)
	r.Log().Mark("done")
	devicetest.EverySync(t, r.Log().Ops(), func(ops []device.Op) error {
		return devicetest.Replay(device.NewMemory(64<<10, 512), ops, func(m *device.Memory, s devicetest.State) error {
			header := at(m, 0) == 2
			if s.Reached("done") && !header {
				return errors.New("done, but there is no header")
			}
			b := make([]byte, 3000)
			m.ReadAt(b, 4096)
			if header && !bytes.Equal(b, bytes.Repeat([]byte{1}, 3000)) {
				return errors.New("a header without its data")
			}
			return nil
		}, devicetest.ReplayOptions{})
	})
}

// states collects what a part of the image may hold after the whole log.
func states(t *testing.T, ops []device.Op, off, n int) map[string]bool {
	t.Helper()
	seen := map[string]bool{}
	err := devicetest.Replay(device.NewMemory(64<<10, 512), ops, func(m *device.Memory, s devicetest.State) error {
		if s.Done == len(ops) {
			text := ""
			for i := range n {
				text += fmt.Sprint(at(m, off+i*512), at(m, off+i*512+511), " ")
			}
			seen[text] = true
		}
		return nil
	}, devicetest.ReplayOptions{Subsets: 200})
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// Unsynced writes tear between sectors, never inside one; synced ones do not.
func TestReplayTears(t *testing.T) {
	r := newRecord()
	put(t, r, 7, 512, 1024)
	want := map[string]bool{"0 0 0 0 ": true, "7 7 0 0 ": true, "0 0 7 7 ": true, "7 7 7 7 ": true}
	if got := states(t, r.Log().Ops(), 512, 2); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("unsynced: %v, want %v", got, want)
	}
	flush(t, r)
	if got := states(t, r.Log().Ops(), 512, 2); fmt.Sprint(got) != fmt.Sprint(map[string]bool{"7 7 7 7 ": true}) {
		t.Errorf("synced: %v", got)
	}
}

// Of two unsynced writes either may be lost, and the later one may arrive
// alone; both there, the later one wins.
func TestReplayReorders(t *testing.T) {
	r := newRecord()
	put(t, r, 1, 0, 512)
	put(t, r, 2, 512, 512)
	put(t, r, 3, 0, 512)
	got := states(t, r.Log().Ops(), 0, 2)
	for _, first := range []string{"0 0 ", "1 1 ", "3 3 "} {
		for _, second := range []string{"0 0 ", "2 2 "} {
			if !got[first+second] {
				t.Errorf("never tried: %s%s", first, second)
			}
			delete(got, first+second)
		}
	}
	if len(got) > 0 {
		t.Errorf("impossible states: %v", got)
	}
}

// What was discarded may be old, zeros or noise, also after a flush.
func TestReplayDiscard(t *testing.T) {
	seen := map[byte]bool{}
	for seed := range uint64(20) {
		r := newRecord()
		put(t, r, 9, 0, 512)
		flush(t, r)
		if err := r.Discard(0, 512); err != nil {
			t.Fatal(err)
		}
		flush(t, r)
		ops := r.Log().Ops()
		devicetest.Replay(device.NewMemory(64<<10, 512), ops, func(m *device.Memory, s devicetest.State) error {
			if s.Done == len(ops) {
				seen[at(m, 0)] = true
			}
			return nil
		}, devicetest.ReplayOptions{Seed: seed})
	}
	if !seen[9] || !seen[0] || len(seen) < 3 {
		t.Errorf("a discarded byte of 9 reads as one of %v", seen)
	}
}

// A check gets an image of its own, and its error comes back with the crash.
func TestReplayError(t *testing.T) {
	r := newRecord()
	put(t, r, 1, 0, 512)
	put(t, r, 2, 512, 512)
	r.Log().Mark("written")
	bad := errors.New("bad")
	err := devicetest.Replay(device.NewMemory(64<<10, 512), r.Log().Ops(), func(m *device.Memory, s devicetest.State) error {
		if b := at(m, 5000); b != 0 {
			return fmt.Errorf("an earlier check's write is in the image: %d", b)
		}
		put(t, m, 0xff, 5000, 1)
		if s.Reached("written") && at(m, 512) == 0 {
			return bad
		}
		return nil
	}, devicetest.ReplayOptions{Seed: 5})
	var crash *devicetest.CrashError
	if !errors.As(err, &crash) || !errors.Is(err, bad) || crash.State.Done != 3 || crash.Seed != 5 {
		t.Errorf("error: %v", err)
	}
}

// dirLog is what becomes of a folder: create, write, flush, rename over an old
// file, with or without the syncs.
func dirLog(flushed, synced bool) []device.Op {
	ops := []device.Op{
		{Kind: device.OpCreate, File: 0, Name: "temp", Len: 1024},
		{Kind: device.OpWrite, File: 0, Off: 0, Len: 1024, Data: bytes.Repeat([]byte{1}, 1024)},
	}
	if flushed {
		ops = append(ops, device.Op{Kind: device.OpFlush, File: 0})
	}
	ops = append(ops, device.Op{Kind: device.OpRename, Name: "temp", NewName: "image"})
	if synced {
		ops = append(ops, device.Op{Kind: device.OpSyncDir})
	}
	return ops
}

// dirStates collects what the folder may hold after the whole log.
func dirStates(ops []device.Op) map[string]bool {
	old := device.NewMemory(1, 1)
	old.WriteAt([]byte{9}, 0)
	seen := map[string]bool{}
	devicetest.ReplayDir(map[string]*device.Memory{"image": old}, ops, func(files map[string]*device.Memory, s devicetest.State) error {
		if s.Done == len(ops) {
			text := ""
			for _, name := range []string{"image", "temp"} {
				if m := files[name]; m != nil {
					text += fmt.Sprint(name, ":", m.Size(), "/", at(m, 0), " ")
				}
			}
			seen[text] = true
		}
		return nil
	}, devicetest.ReplayOptions{Subsets: 100})
	return seen
}

func TestReplayDirStates(t *testing.T) {
	oldOnly, oldBoth, renamed := "image:1/9 ", "image:1/9 temp:1024/1 ", "image:1024/1 "
	for _, c := range []struct {
		flushed, synced  bool
		must, impossible []string
	}{
		{true, true, []string{renamed}, []string{oldOnly, oldBoth}},
		{true, false, []string{oldOnly, oldBoth, renamed}, []string{"", "temp:1024/1 "}},
		{false, true, []string{"image:0/0 ", "image:1024/0 ", renamed}, []string{oldOnly}},
	} {
		seen := dirStates(dirLog(c.flushed, c.synced))
		for _, s := range c.must {
			if !seen[s] {
				t.Errorf("flushed=%v synced=%v: never tried %q", c.flushed, c.synced, s)
			}
		}
		for _, s := range c.impossible {
			if seen[s] {
				t.Errorf("flushed=%v synced=%v: impossible %q", c.flushed, c.synced, s)
			}
		}
	}
}
