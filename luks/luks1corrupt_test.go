package luks

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"strings"
	"testing"
	"time"
)

// put is a change of bytes of an image.
func put(off int, b ...byte) func(memory) memory {
	return func(m memory) memory { copy(m[off:], b); return m }
}

// put32 is a change of a number of a LUKS1 header.
func put32(off int, n uint32) func(memory) memory {
	return put(off, binary.BigEndian.AppendUint32(nil, n)...)
}

// fill overwrites n bytes with c.
func fill(off, n int, c byte) func(memory) memory {
	return put(off, bytes.Repeat([]byte{c}, n)...)
}

func cutTo(n int) func(memory) memory { return func(m memory) memory { return m[:n] } }

// slot1 is where a field of a row of the table of keyslots lies.
func slot1(i, field int) int { return off1Slots + i*luks1SlotSize + field }

// luks1Defects are changes of a LUKS1 volume with a 32-byte key in 2 MiB, whose
// one passphrase is in keyslot 0; its areas take 250 sectors each, and start
// every 256 sectors from 8 on, its data at 4096.
var luks1Defects = []struct {
	name   string
	change func(memory) memory
	want   error
	word   string
}{
	{"empty", cutTo(0), ErrNotLUKS, "no LUKS magic"},
	{"five bytes", cutTo(5), ErrNotLUKS, "no LUKS magic"},
	{"magic alone", cutTo(6), ErrHeaderCorrupt, "ends after 6 bytes"},
	{"magic and half a version", cutTo(7), ErrHeaderCorrupt, "ends after 7 bytes"},
	{"magic and version alone", cutTo(8), ErrHeaderCorrupt, "8 of its 592 bytes"},
	{"one byte short", cutTo(591), ErrHeaderCorrupt, "591 of its 592 bytes"},
	{"header alone", cutTo(592), ErrHeaderCorrupt, "keyslot 0: its area of 128000 bytes at offset 4096 ends behind the file"},
	{"ends in the last area", cutTo((1800+249)*512 + 511), ErrHeaderCorrupt, "keyslot 7: its area of 128000 bytes at offset 921600 ends behind the file"},
	{"magic", put(3, 'X'), ErrNotLUKS, "no LUKS magic"},
	{"magic of a secondary", put(0, 'S', 'K', 'U', 'L'), ErrNotLUKS, "no LUKS magic"},
	{"version 0", put(offVersion, 0, 0), ErrUnsupported, "version 0"},
	{"version 2", put(offVersion, 0, 2), ErrHeaderCorrupt, "hdr_size"},
	{"version 3", put(offVersion, 0, 3), ErrUnsupported, "version 3"},
	{"version in the other order", put(offVersion, 1, 0), ErrUnsupported, "version 256"},

	{"cipher-name empty", put(off1Cipher, 0), ErrHeaderCorrupt, "cipher-name at offset 8 is empty"},
	{"cipher-name without NUL", fill(off1Cipher, 32, 'a'), ErrHeaderCorrupt, "cipher-name at offset 8 has no final NUL"},
	{"cipher-name unknown", put(off1Cipher, 'x', 'y', 'z'), ErrUnsupported, "xyz-xts-plain64"},
	{"cipher-name of control characters", put(off1Cipher, 0x1b, '[', '2'), ErrUnsupported, `\x1b[2`},
	{"cipher-name of a mode", put(off1Cipher, []byte("aes-xts\x00")...), ErrUnsupported, "aes-xts-xts-plain64"},
	{"cipher-mode empty", put(off1Mode, 0), ErrHeaderCorrupt, "cipher-mode at offset 40 is empty"},
	{"cipher-mode without NUL", fill(off1Mode, 32, 'm'), ErrHeaderCorrupt, "cipher-mode at offset 40 has no final NUL"},
	{"cipher-mode unknown", put(off1Mode, []byte("xyz-plain64\x00")...), ErrUnsupported, "aes-xyz-plain64"},
	{"cipher-mode with an unknown IV", put(off1Mode, []byte("xts-plain65\x00")...), ErrUnsupported, "plain65"},
	{"cipher-mode without IV", put(off1Mode, []byte("xts\x00")...), ErrUnsupported, "aes-xts"},
	{"cipher-mode weak", put(off1Mode, []byte("ecb\x00")...), ErrPolicy, "aes-ecb"},
	{"cipher null", put(off1Cipher, []byte("cipher_null\x00")...), ErrUnsupported, "cipher_null-xts-plain64"},
	{"hash-spec empty", put(off1Hash, 0), ErrHeaderCorrupt, "hash-spec at offset 72 is empty"},
	{"hash-spec without NUL", fill(off1Hash, 32, 'h'), ErrHeaderCorrupt, "hash-spec at offset 72 has no final NUL"},
	{"hash-spec unknown", put(off1Hash, 'm', 'd', '9', 0), ErrUnsupported, `hash "md9"`},
	{"hash-spec another", put(off1Hash, 's', 'h', 'a', '1', 0), ErrWrongPassphrase, "keyslot 0"},

	{"payload offset 1", put32(off1Payload, 1), ErrHeaderCorrupt, "overlaps the data, which starts at 512"},
	{"payload offset in an area", put32(off1Payload, 2049), ErrHeaderCorrupt, "keyslot 7: its area of 128000 bytes at offset 921600 overlaps the data, which starts at 1049088"},
	{"key-bytes 0", put32(off1KeyBytes, 0), ErrHeaderCorrupt, "key-bytes at offset 108: 0"},
	{"key-bytes 33", put32(off1KeyBytes, 33), ErrHeaderCorrupt, "overlaps that of keyslot"},
	{"key-bytes 16", put32(off1KeyBytes, 16), ErrUnsupported, "key of 16 bytes"},
	{"key-bytes 24", put32(off1KeyBytes, 24), ErrUnsupported, "key of 24 bytes"},
	{"key-bytes 513", put32(off1KeyBytes, 513), ErrHeaderCorrupt, "key-bytes at offset 108: 513"},
	{"key-bytes 2^32-1", put32(off1KeyBytes, 1<<32-1), ErrHeaderCorrupt, "key-bytes at offset 108: 4294967295"},
	{"mk-digest", put(off1Digest, 1, 2, 3, 4), ErrWrongPassphrase, "keyslot 0"},
	{"mk-digest-salt", put(off1DigestSalt, 1, 2, 3, 4), ErrWrongPassphrase, "keyslot 0"},
	{"mk-digest-iter 0", put32(off1DigestIterations, 0), ErrHeaderCorrupt, "mk-digest-iter at offset 164: 0"},
	{"mk-digest-iter 2^31", put32(off1DigestIterations, 1<<31), ErrHeaderCorrupt, "mk-digest-iter at offset 164: 2147483648"},
	{"mk-digest-iter 2^32-1", put32(off1DigestIterations, 1<<32-1), ErrHeaderCorrupt, "mk-digest-iter at offset 164: 4294967295"},
	{"mk-digest-iter 2^31-1", put32(off1DigestIterations, 1<<31-1), ErrPolicy, "keyslot 0"},
	{"mk-digest-iter another", put32(off1DigestIterations, 1001), ErrWrongPassphrase, "keyslot 0"},
	{"uuid without NUL", fill(off1UUID, 40, 'u'), ErrHeaderCorrupt, "uuid at offset 168 has no final NUL"},

	{"keyslot state 0", put32(slot1(0, 0), 0), ErrHeaderCorrupt, "keyslot 0 state at offset 208: 0x00000000"},
	{"keyslot state in the other order", put32(slot1(0, 0), 0xf371ac00), ErrHeaderCorrupt, "keyslot 0 state at offset 208: 0xf371ac00"},
	{"keyslot state of an unused one", put32(slot1(7, 0), 0xdeadbeef), ErrHeaderCorrupt, "keyslot 7 state at offset 544: 0xdeadbeef"},
	{"keyslot inactive", put32(slot1(0, 0), luks1Inactive), ErrNoKeyslot, "none of the 0"},
	{"another keyslot active", put32(slot1(1, 0), luks1Active), ErrHeaderCorrupt, "keyslot 1 iterations at offset 260: 0"},
	{"keyslot iterations 0", put32(slot1(0, off1SlotIterations), 0), ErrHeaderCorrupt, "keyslot 0 iterations at offset 212: 0"},
	{"keyslot iterations 2^31", put32(slot1(0, off1SlotIterations), 1<<31), ErrHeaderCorrupt, "keyslot 0 iterations at offset 212: 2147483648"},
	{"keyslot iterations 2^32-1", put32(slot1(0, off1SlotIterations), 1<<32-1), ErrHeaderCorrupt, "keyslot 0 iterations at offset 212: 4294967295"},
	{"keyslot iterations 2^31-1", put32(slot1(0, off1SlotIterations), 1<<31-1), ErrPolicy, "keyslot 0"},
	{"keyslot iterations another", put32(slot1(0, off1SlotIterations), 1001), ErrWrongPassphrase, "keyslot 0"},
	{"keyslot salt", put(slot1(0, off1SlotSalt), 1, 2, 3, 4), ErrWrongPassphrase, "keyslot 0"},
	{"keyslot material at 0", put32(slot1(0, off1SlotMaterial), 0), ErrHeaderCorrupt, "keyslot 0: its area at offset 0 lies in the header"},
	{"keyslot material in the header", put32(slot1(0, off1SlotMaterial), 1), ErrHeaderCorrupt, "keyslot 0: its area at offset 512 lies in the header"},
	{"keyslot material on another's", put32(slot1(0, off1SlotMaterial), 1800), ErrHeaderCorrupt, "overlaps that of keyslot"},
	{"keyslot material at another's end", put32(slot1(0, off1SlotMaterial), 264+249), ErrHeaderCorrupt, "overlaps that of keyslot"},
	{"keyslot material in the data", put32(slot1(0, off1SlotMaterial), 4000), ErrHeaderCorrupt, "keyslot 0: its area of 128000 bytes at offset 2048000 overlaps the data"},
	{"keyslot material at 2^32-1", put32(slot1(0, off1SlotMaterial), 1<<32-1), ErrHeaderCorrupt, "keyslot 0: its area of 128000 bytes at offset 2199023255040 overlaps the data"},
	{"unused keyslot's material on another's", put32(slot1(5, off1SlotMaterial), 9), ErrHeaderCorrupt, "overlaps that of keyslot 0"},
	{"unused keyslot's material in the data", put32(slot1(5, off1SlotMaterial), 4095), ErrHeaderCorrupt, "keyslot 5"},
	{"unused keyslot's material at 0", put32(slot1(5, off1SlotMaterial), 0), ErrHeaderCorrupt, "keyslot 5: its area at offset 0 lies in the header"},
	{"keyslot stripes 0", put32(slot1(0, off1SlotStripes), 0), ErrHeaderCorrupt, "keyslot 0 stripes at offset 252: 0"},
	{"keyslot stripes 2^32-1", put32(slot1(0, off1SlotStripes), 1<<32-1), ErrHeaderCorrupt, "keyslot 0 stripes at offset 252: 4294967295"},
	{"keyslot stripes 3999", put32(slot1(0, off1SlotStripes), 3999), ErrPolicy, "3999 stripes"},
	{"keyslot stripes 5000", put32(slot1(0, off1SlotStripes), 5000), ErrHeaderCorrupt, "overlaps that of keyslot 0"},
	{"unused keyslot's stripes 0", put32(slot1(6, off1SlotStripes), 0), ErrHeaderCorrupt, "keyslot 6 stripes at offset 540: 0"},
	{"unused keyslot's stripes into the data", put32(slot1(7, off1SlotStripes), 40000), ErrHeaderCorrupt, "keyslot 7: its area of 1280000 bytes"},

	{"area of zeros", fill(8*512, 128000, 0), ErrKeyslotDamaged, "250 of its 250 sectors"},
	{"one sector of zeros", fill(9*512, 512, 0), ErrKeyslotDamaged, "1 of its 250 sectors do not hold encrypted data, the first at offset 4608"},
	{"one bit of the area", func(m memory) memory { m[8*512+77777] ^= 1; return m }, ErrWrongPassphrase, "keyslot 0"},
	{"text over the area", put(20*512, []byte(strings.Repeat("all work and no play ", 50))...), ErrKeyslotDamaged, "sectors do not hold encrypted data, the first at offset 10240"},
}

// Every defect has its reason, which names the field, the value and the offset;
// none costs time or memory.
func TestLUKS1Defects(t *testing.T) {
	whole, _ := formatted(t, smallLUKS1())
	for _, d := range luks1Defects {
		t.Run(d.name, func(t *testing.T) {
			m := d.change(bytes.Clone(whole))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			h, err := ReadHeader(m, int64(len(m)))
			if err == nil {
				_, err = h.DataSegments()
			}
			if err == nil {
				var v *Volume
				if v, err = h.Unlock(t.Context(), m, []byte("small"), UnlockOptions{Slot: AnySlot}); err == nil {
					v.Close()
				}
			}
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			wantNamed(t, err, d.want, d.word)
			if n := after.TotalAlloc - before.TotalAlloc; n > 10<<20 {
				t.Errorf("%d bytes were allocated", n)
			}
			for range 5 { // more than once, since the machine may be busy
				if took <= 10*time.Millisecond {
					return
				}
				start = time.Now()
				if h, err := ReadHeader(m, int64(len(m))); err == nil {
					_, _ = h.Unlock(t.Context(), m, []byte("small"), UnlockOptions{Slot: AnySlot})
				}
				took = time.Since(start)
			}
			if !testing.Short() {
				t.Errorf("it took %v", took)
			}
		})
	}
}
