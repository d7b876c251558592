package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/internal/probe"
	"github.com/xtsdisk/xtsdisk/internal/sector"
	"github.com/xtsdisk/xtsdisk/luks"
)

// OpenOptions says how a volume is unlocked.
type OpenOptions struct {
	Passphrase []byte // tried unless VolumeKey or Plain is set; may be empty
	VolumeKey  []byte // not nil: taken if it fits the header's digest
	Slot       int    // keyslot to try; luks.AnySlot: by priority
	Header     string // path of a detached header; "": in the volume itself
	Inside     Inside // where in the file the volume lies; the zero value: all of it
	Version    int    // of LUKS: ErrOptions if the header has another; 0: any

	// Token, if not nil, is the number of the token that gives the passphrase:
	// see luks.Header.UnlockWithToken. Nothing is asked then.
	Token *int

	Policy luks.Policy // bounds of the KDF's cost, weaknesses accepted; the zero value is safe

	// Ask, if set, is called when a secret is needed and neither VolumeKey nor
	// Plain.Key is there: once the header has been read, the data has turned out
	// to be of a kind that can be opened and, by Decrypt, the target has been
	// checked. It returns the passphrase, or for a plain volume, which has no
	// header, the key. The result is not kept, and is the caller's to wipe.
	Ask func(context.Context, *luks.Header) ([]byte, error)

	Plain *PlainOptions // a volume without a header: all that is needed
	Force bool          // take it as plain although there is a LUKS header

	Writable bool         // else nothing can be written
	Direct   bool         // bypass the page cache (O_DIRECT)
	Warn     func(string) // gets each of Volume.Warnings as it is found; may be nil
}

// Volume is an open volume: its plaintext as a device. All methods of
// device.Device are as documented there; its Close also wipes the key. Discard
// does nothing: it would show which sectors are unused.
type Volume struct {
	device.Device
	Header   *luks.Header // nil for a plain volume
	Slot     int          // keyslot that opened; -1: by volume key, or plain
	KDFTime  time.Duration
	Warnings []string // lower-case sentences without a final full stop

	opened *opened
}

// Close closes the file and clears the keys. A second Close does nothing.
func (v *Volume) Close() error { return v.opened.close() }

// Open opens the volume at path, a regular file or block device. While it is
// open, other programs that look at qemu's lock bytes find it in use: for
// reading, or, if Writable, exclusively. Reading never writes, not even to
// repair a header.
//
// A volume in the middle of a reencryption is read as it would be after its
// recovery; it cannot be Writable (ErrUnsupported). Reading where data was lost
// gives ErrUnrecoverable.
//
// Errors are ErrIsLUKS, ErrDetached, ErrTruncated (for a plain volume ErrSize),
// ErrOptions, ErrUnsupported, ErrKind, lock.ErrInUse, those of luks.ReadHeader and
// luks.Header.Unlock, the cause of ctx's end, and those of the system.
func Open(ctx context.Context, path string, o OpenOptions) (*Volume, error) {
	r := &run{system: host, warn: o.Warn}
	return r.openVolume(ctx, path, o)
}

// Unlock reads the header of the volume at path (or at o.Header) and unlocks
// it, without its data: for testing and exporting keys. The caller closes the
// result. Errors are as Open's.
func Unlock(ctx context.Context, path string, o OpenOptions) (*luks.Volume, error) {
	r := &run{system: host, warn: o.Warn}
	if o.Plain != nil {
		return nil, fmt.Errorf("%w: a plain volume has no header to unlock", ErrOptions)
	}
	path, d, err := r.openHeaderOf(path, o)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	h, err := r.readHeader(ctx, path, d, d.Size())
	if err == nil {
		err = o.checkVersion(path, h)
	}
	if err != nil {
		return nil, err
	}
	return r.unlock(ctx, path, h, d, o)
}

// opened is what belongs to an open volume.
type opened struct {
	payload *payload
	luks    *luks.Volume // nil: plain
	dev     device.Device
	head    device.Device // a detached header that is still needed, or nil
	release func()
	closed  bool
}

// keepHeader closes a detached header, or leaves that to close if a part of the
// data has to be recovered from it.
func (v *opened) keepHeader(head device.Device) {
	if v.payload != nil && v.payload.hot != nil {
		v.head = head
		return
	}
	head.Close()
}

func (v *opened) close() error {
	if v.closed {
		return nil
	}
	v.closed = true
	var err error
	if v.dev != nil {
		err = v.dev.Close()
	}
	if v.payload != nil {
		v.payload.wipe()
	}
	if v.head != nil {
		v.head.Close()
	}
	if v.luks != nil {
		v.luks.Close()
	}
	if v.release != nil {
		v.release()
	}
	return err
}

func (r *run) openVolume(ctx context.Context, path string, o OpenOptions) (_ *Volume, err error) {
	st, err := r.state(path)
	if err != nil {
		return nil, err
	}
	if st.kind == stream {
		return nil, noPlaces(path)
	}
	v := &opened{}
	defer func() {
		if err != nil {
			v.close()
		}
	}()
	if o.Writable {
		v.release, err = r.markWritten(path)
	} else {
		v.release, err = r.markRead(path)
	}
	if err != nil {
		return nil, err
	}
	if v.dev, err = r.open(path, device.FileOptions{ReadOnly: !o.Writable, Direct: o.Direct}); err != nil {
		return nil, err
	}
	data, err := r.inside(path, v.dev, o.Inside)
	if err != nil {
		return nil, err
	}
	v.dev = data
	if err := r.openPayload(ctx, v, path, v.dev, v.dev.Size(), o); err != nil {
		return nil, err
	}
	size, err := r.fit(v.payload, path, v.dev.Size())
	if err != nil {
		return nil, err
	}
	out := &Volume{Device: v.payload.view(v.dev, size), Slot: -1, Warnings: r.Warnings, opened: v}
	if v.luks != nil {
		out.Header, out.Slot, out.KDFTime = v.luks.Header, v.luks.Slot, v.luks.KDFTime
	}
	return out, nil
}

func noPlaces(path string) error {
	return fmt.Errorf("%s: %w: a pipe or the like has no places to read at", path, ErrKind)
}

// markWritten checks that path may be written, and tells others that it is.
func (r *run) markWritten(path string) (release func(), err error) {
	if err := r.checkWrite(path); err != nil {
		return nil, err
	}
	return r.hold(path, true)
}

// openPayload finds out how the data of the volume at path is encrypted. data
// is the volume itself, size its length or -1.
func (r *run) openPayload(ctx context.Context, v *opened, path string, data io.ReaderAt, size int64, o OpenOptions) (err error) {
	if o.Plain != nil {
		if _, err := o.Plain.check(); err != nil {
			return err
		}
		if err := refuseLUKS(path, data, size, o.Plain.Offset); err != nil && !o.Force {
			return err
		} else if err != nil {
			r.warnf("%v", err)
		}
		plain := *o.Plain
		if o.Ask != nil && len(plain.Key) == 0 {
			if plain.Key, err = o.Ask(ctx, nil); err != nil {
				return err
			}
		}
		if v.payload, err = plain.payload(false); err != nil {
			return err
		}
		return o.checkPlain(v.payload.spec)
	}
	dataSize := size
	if o.Header != "" {
		head, err := r.openHeader(o.Header)
		if err != nil {
			return err
		}
		defer func() { v.keepHeader(head) }()
		path, data, size = o.Header, head, head.Size()
	}
	h, err := r.readHeader(ctx, path, data, size)
	if err == nil {
		err = o.checkVersion(path, h)
	}
	if err != nil {
		return err
	}
	if o.Header == "" && h.Detached() {
		return fmt.Errorf("%s: %w: the data would begin inside the header", path, ErrDetached)
	}
	// What cannot be opened in any case is said before the key derivation.
	if _, err := h.DataSegments(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := r.checkReencryption(path, h, dataSize, o); err != nil {
		return err
	}
	if err := r.checkCiphers(path, h, o); err != nil {
		return err
	}
	if v.luks, err = r.unlock(ctx, path, h, data, o); err != nil {
		return err
	}
	v.payload, err = luksPayload(v.luks, false)
	if err == nil && v.payload.hot != nil {
		v.payload.hot.head = data
	}
	return err
}

// checkCiphers checks what the policy says of the data's ciphers, and that the
// volume may be written if it is to be.
func (r *run) checkCiphers(path string, h *luks.Header, o OpenOptions) error {
	if err := o.Policy.Check(h); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, s := range h.Segments {
		spec, err := sector.Parse(s.Cipher)
		if err != nil {
			continue // DataSegments says what cannot be opened
		}
		why := spec.ReadOnly()
		if why != "" && o.Writable {
			return fmt.Errorf("%s: %w: nothing is written with cipher %s, which %s", path, ErrPolicy, spec, why)
		}
		if why != "" {
			r.warnf("%s: cipher %s %s", path, spec, why)
		}
	}
	return nil
}

// checkPlain is checkCiphers for a plain volume.
func (o *OpenOptions) checkPlain(spec sector.Spec) error {
	if why := spec.Weakness(); why != "" && !o.Policy.AllowWeak {
		return fmt.Errorf("%w: cipher %s %s", ErrPolicy, spec, why)
	}
	if why := spec.ReadOnly(); why != "" && o.Writable {
		return fmt.Errorf("%w: nothing is written with cipher %s, which %s", ErrPolicy, spec, why)
	}
	return nil
}

// openHeaderOf opens what holds the header of the volume at path, and returns
// its path too.
func (r *run) openHeaderOf(path string, o OpenOptions) (string, device.Device, error) {
	in := o.Inside
	if o.Header != "" {
		path, in = o.Header, Inside{}
	}
	d, err := r.openInside(path, in)
	return path, d, err
}

func (r *run) openHeader(path string) (device.Device, error) {
	st, err := r.state(path)
	if err != nil {
		return nil, err
	}
	if st.kind == stream {
		return nil, noPlaces(path)
	}
	return r.open(path, device.FileOptions{ReadOnly: true})
}

// readHeader reads under the brief lock that cryptsetup takes for it; size is
// negative for a stream, which has none.
func (r *run) readHeader(ctx context.Context, path string, data io.ReaderAt, size int64) (*luks.Header, error) {
	if size >= 0 {
		release, err := r.holdHeader(ctx, path)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	h, err := luks.ReadHeader(data, size)
	if errors.Is(err, luks.ErrNotLUKS) && size >= 0 {
		if found := names(probe.Identify(data, size)); !strings.Contains(err.Error(), found) {
			return nil, fmt.Errorf("%s: %w; it holds %s", path, err, found)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, w := range h.Warnings {
		r.warnf("%s: %s", path, w)
	}
	return h, nil
}

func (o *OpenOptions) checkVersion(path string, h *luks.Header) error {
	if o.Version != 0 && o.Version != h.Version {
		return fmt.Errorf("%s: %w: it is a LUKS%d volume, not LUKS%d", path, ErrOptions, h.Version, o.Version)
	}
	return nil
}

func (r *run) unlock(ctx context.Context, path string, h *luks.Header, data io.ReaderAt, o OpenOptions) (v *luks.Volume, err error) {
	if o.Ask != nil && o.VolumeKey == nil && o.Token == nil {
		if o.Passphrase, err = o.Ask(ctx, h); err != nil {
			return nil, err
		}
	}
	err = r.timed(PhaseKDF, &r.KDFTime, func() (err error) {
		switch {
		case o.VolumeKey != nil:
			v, err = h.UnlockWithKey(ctx, o.VolumeKey, o.Policy)
		case o.Token != nil:
			v, err = h.UnlockWithToken(ctx, data, *o.Token, luks.UnlockOptions{Slot: o.Slot, Policy: o.Policy})
		default:
			v, err = h.Unlock(ctx, data, o.Passphrase, luks.UnlockOptions{Slot: o.Slot, Policy: o.Policy})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}

// fit returns how much data there is in a file of the given size, in whole
// sectors.
func (r *run) fit(p *payload, path string, size int64) (int64, error) {
	if p.parts != nil {
		return r.fitParts(p, path, size)
	}
	room := size - p.offset
	if room <= 0 {
		return 0, fmt.Errorf("%s: %w: it has %d bytes, and the data begins at byte %d", path, p.ifShort, size, p.offset)
	}
	if p.size >= 0 && p.size > room {
		return 0, fmt.Errorf("%s: %w: %d bytes of data at byte %d; it has only %d bytes", path, p.ifShort, p.size, p.offset, size)
	}
	data := p.size
	if data < 0 {
		data = room
	}
	data -= r.leftOver(path, data%int64(p.sectorSize()), p.sectorSize())
	if data == 0 {
		return 0, fmt.Errorf("%s: %w: %d bytes behind byte %d are less than a sector of %d", path, p.ifShort, room, p.offset, p.sectorSize())
	}
	if data > p.ivLimit() {
		r.warnf("%s has %d bytes with cipher %s: its IVs repeat every 2 TiB, as dm-crypt's do", path, data, p.spec)
	}
	return data, nil
}

// leftOver warns of n bytes that are less than a sector, and returns n.
func (r *run) leftOver(path string, n int64, sectorSize int) int64 {
	if n > 0 {
		r.warnf("%s: the last %d bytes are less than a sector of %d, and are left out", path, n, sectorSize)
	}
	return n
}
