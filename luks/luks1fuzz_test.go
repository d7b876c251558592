package luks

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// FuzzLUKS1 takes the bytes of a LUKS1 header, a passphrase, and a flag that
// makes the costs small, so that the fuzzer reaches what lies behind them.
// Whatever it finds, nothing panics; a header that is accepted keeps its areas
// apart, is encoded as it was read, and can be shown and tried.
func FuzzLUKS1(f *testing.F) {
	image, _ := formatted(f, smallLUKS1())
	add := func(changes ...func(memory) memory) {
		m := memory(bytes.Clone(image))
		for _, change := range changes {
			m = change(m)
		}
		f.Add([]byte(m[:min(len(m), luks1Size)]), []byte("small"), true)
	}
	f.Add([]byte(image[:luks1Size]), []byte("small"), false)
	add()
	for _, d := range luks1Defects {
		add(d.change)
	}
	for _, names := range [][3]string{
		{"aes", "cbc-essiv:sha256", "sha1"}, {"serpent", "xts-plain64", "whirlpool"}, {"twofish", "cbc-plain", "ripemd160"},
		{"aes", "lrw-benbi", "sha512"}, {"cipher_null", "ecb", "sha256"}, {"capi:xts(aes)", "plain64", "blake2b-512"},
	} {
		add(put(off1Cipher, []byte(names[0]+"\x00")...), put(off1Mode, []byte(names[1]+"\x00")...), put(off1Hash, []byte(names[2]+"\x00")...))
	}
	add(put32(slot1(3, 0), luks1Active), put32(slot1(3, off1SlotIterations), 1), put32(off1Payload, 0))
	f.Fuzz(func(t *testing.T, header, passphrase []byte, cheapen bool) {
		m := memory(bytes.Clone(image))
		copy(m[:luks1Size], header)
		if cheapen {
			for _, off := range append(iterations1(), off1DigestIterations) {
				if n := binary.BigEndian.Uint32(m[off:]); n > 4 {
					binary.BigEndian.PutUint32(m[off:], n%4+1)
				}
			}
		}
		h, err := ReadHeader(m, int64(len(m)))
		if err != nil || h.luks1 == nil {
			return
		}
		exerciseLUKS1(t, h, m)
		if !cheap(h) {
			return
		}
		if v, err := h.Unlock(t.Context(), m, passphrase, allowAll); err == nil {
			v.Close()
		}
		if v, err := h.UnlockWithKey(t.Context(), make([]byte, h.luks1.keyBytes), allowAll.Policy); err == nil {
			v.Close()
		}
	})
}

// iterations1 is where the iterations of all keyslots lie.
func iterations1() (offs []int) {
	for i := range luks1Slots {
		offs = append(offs, slot1(i, off1SlotIterations))
	}
	return offs
}

// exerciseLUKS1 does with an accepted header what reading verbs do.
func exerciseLUKS1(t *testing.T, h *Header, m memory) {
	if h.Summary() == "" {
		t.Error("no summary")
	}
	if !bytes.Equal(h.luks1.encode(), m[:luks1Size]) {
		t.Error("encoded as something else than was read")
	}
	start, end := h.KeyslotsOffset(), h.End()
	if start < luks1Size || end > int64(len(m)) {
		t.Errorf("keyslots from %d to %d", start, end)
	}
	for i := range luks1Slots {
		off, n := h.luks1.area(i)
		if off < start || n <= 0 || off+n > end {
			t.Errorf("area %d: %d bytes at %d, outside %d to %d", i, n, off, start, end)
		}
		for j := range i {
			if o, m := h.luks1.area(j); off < o+m && o < off+n {
				t.Errorf("areas %d and %d overlap", j, i)
			}
		}
	}
	if list, err := h.DataSegments(); err == nil && !h.Detached() && list[0].Offset < end {
		t.Errorf("the data starts at %d, in front of %d", list[0].Offset, end)
	}
	if h.luks1.freeSlot() >= 0 == (len(h.Keyslots) == luks1Slots) {
		t.Errorf("free keyslot %d of %d active ones", h.luks1.freeSlot(), len(h.Keyslots))
	}
}
