// Package luks reads and writes LUKS headers: the metadata that names the
// cipher of an encrypted volume and keeps its key behind passphrases.
//
// The format is LUKS2 (LUKS2 On-Disk Format Specification 1.1.x, and what
// cryptsetup 2.6 makes of it where the two differ). The package finds and
// checks both copies of a header, unlocks a keyslot, and writes new headers
// that cryptsetup accepts. Offsets and sizes are in bytes unless a name says
// otherwise.
//
// It does no I/O on the payload and asks nothing of the kernel's
// device-mapper: a Volume holds the key and says where the data lies and how
// it is encrypted; package device/volume turns that into a device.
//
// A header is untrusted input. ReadHeader never panics on one, never writes
// (it does not repair), and believes no offset, size or count that it has not
// checked. What a header cannot protect against is its owner's absence: who
// can write to it can replace it by an older one, or by one whose keyslot
// holds another key. See docs/threat-model.md.
package luks

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/xtsdisk/xtsdisk/internal/secret"
)

// Storage is what a header is written to. device.Device satisfies it. Where
// it also has WriteZeroes(off, n int64) error, large zero ranges go through
// that.
type Storage interface {
	io.ReaderAt
	io.WriterAt
	// Flush returns nil once everything written so far is durable.
	Flush() error
}

// Copy names one of the two copies of a LUKS2 header.
type Copy uint8

// The copies of a LUKS2 header.
const (
	Primary   Copy = iota // at offset 0
	Secondary             // behind the primary, at offset Header.Size
)

// String returns "primary" or "secondary".
func (c Copy) String() string {
	if c == Secondary {
		return "secondary"
	}
	return "primary"
}

// other is the copy that c is not.
func (c Copy) other() Copy { return Secondary - c }

// Header is a LUKS1 or LUKS2 header, parsed and checked. It holds no secret.
//
// One of LUKS1 has no label, subsystem, sequence number, tokens and priorities;
// its active keyslots, its data and the digest of its key are described as
// those of LUKS2 are.
type Header struct {
	Version   int    // 1 or 2
	UUID      string // as written, usually in RFC 9562 form
	Label     string // up to 47 bytes
	Subsystem string // up to 47 bytes
	SeqID     uint64 // rises with every change (cryptsetup: Epoch)
	Size      int64  // bytes of one copy: the binary header and its JSON area; 592 for LUKS1

	json *jsonObject // what LUKS2 objects were read from, for changes that keep what is not known here

	Copy     Copy     // the copy that was used
	Warnings []string // what is wrong with the other copy and the like; not fatal

	// Objects in ascending order of ID.
	Keyslots []Keyslot
	Segments []Segment
	Digests  []Digest
	Tokens   []Token
	Config   Config

	luks1 *luks1Header // nil for version 2
}

// Priority says in which order keyslots are tried.
type Priority int

// Keyslot priorities (specification, section 3.2).
const (
	PriorityIgnore Priority = 0 // tried only when named
	PriorityNormal Priority = 1
	PriorityPrefer Priority = 2 // tried before the normal ones
)

// String returns "ignored", "normal" or "preferred".
func (p Priority) String() string {
	switch p {
	case PriorityIgnore:
		return "ignored"
	case PriorityPrefer:
		return "preferred"
	}
	return "normal"
}

// Keyslot is one keyslot object (specification, section 3.2). KDF and AF are
// set for types "luks1" and "luks2" only; other types are kept but cannot be unlocked.
type Keyslot struct {
	ID       int    // 0 to 31
	Type     string // "luks1", "luks2", "reencrypt", or one this package does not know
	KeySize  int    // bytes of the key inside
	Priority Priority
	KDF      KDF  // turns a passphrase into the key of the area
	AF       AF   // how the key is spread over the area
	Area     Area // where the key lies, encrypted
	// Mode and Direction belong to type "reencrypt".
	Mode, Direction string
}

// AF describes the anti-forensic split of a keyslot (specification, section 3.2.4).
type AF struct {
	Stripes int    // 4000, the only number that is in use
	Hash    string // of the diffusion, by cryptsetup's name
}

// Area is a keyslot's place in the keyslots area.
type Area struct {
	Type         string // "raw"; for reencryption "checksum", "journal", "datashift", ...
	Offset, Size int64  // bytes from the start of the header
	Cipher       string // cipher string of the area ("aes-xts-plain64"); type "raw" only
	KeySize      int    // bytes of the area's key; type "raw" only
	Hash         string // type "checksum" only
	SectorSize   int    // bytes a checksum covers; type "checksum" only
	ShiftSize    int64  // bytes; types "datashift*" only
}

// Segment is one area of the data device (specification, section 3.3).
type Segment struct {
	ID         int        // 0 to 31
	Type       string     // "crypt", "linear" (not encrypted), "hw-opal", or one this package does not know
	Offset     int64      // bytes from the start of the data device
	Size       int64      // bytes; -1: to the end of the device ("dynamic")
	IVTweak    uint64     // added to the IV's sector number, in 512-byte units
	Cipher     string     // cipher string; type "crypt" only
	SectorSize int        // bytes; type "crypt" only
	Flags      []string   // "in-reencryption", "backup-final" and so on
	Integrity  *Integrity // nil without authentication
}

// Integrity describes the authentication of a segment by dm-integrity.
type Integrity struct {
	Type              string // "aead", "hmac(sha256)", ...
	JournalEncryption string // "none", or a cipher
	JournalIntegrity  string // "none", or a hash
	KeySize           int    // bytes of the volume key that are for the authentication; 0: as the type has it
}

// Digest verifies a volume key and ties keyslots to segments (specification, section 3.4).
type Digest struct {
	ID       int    // 0 to 31
	Type     string // "pbkdf2"
	Keyslots []int  // IDs of the keyslots that hold its key, ascending
	Segments []int  // IDs of the segments that its key encrypts, ascending
	KDF      KDF    // its hash, iterations and salt
	Value    []byte // the digest
}

// Token is one token object (specification, section 3.6), kept as it was read.
type Token struct {
	ID       int    // 0 to 31
	Type     string // "luks2-keyring", "systemd-tpm2", ...
	Keyslots []int  // IDs of the keyslots it is for, ascending
	JSON     []byte // the whole object, byte for byte
}

// Config is the config object (specification, section 3.5).
type Config struct {
	JSONSize     int64    // bytes of the JSON area
	KeyslotsSize int64    // bytes of the keyslots area, which starts at 2*Header.Size
	Flags        []string // persistent activation flags, "allow-discards" and so on
	Requirements []string // mandatory requirements: features a program must know
}

// AnySlot as UnlockOptions.Slot tries the keyslots by priority.
const AnySlot = -1

// UnlockOptions say which keyslot to try and what it may cost.
type UnlockOptions struct {
	// Slot is the only keyslot to try, or AnySlot. A keyslot whose priority
	// is to be ignored, and one that is bound to no segment, is tried only
	// when it is named here.
	Slot int
	// Policy bounds the cost, and says which weaknesses are accepted; the zero
	// value is safe with a header from anyone.
	Policy Policy
}

// Open reads the header at the start of r (see ReadHeader) and unlocks it with
// the passphrase (see Header.Unlock). size is the length of r in bytes, or
// negative if it is not known. The caller closes the volume. Errors are those
// of the two.
func Open(ctx context.Context, r io.ReaderAt, size int64, passphrase []byte, o UnlockOptions) (*Volume, error) {
	h, err := ReadHeader(r, size)
	if err != nil {
		return nil, err
	}
	return h.Unlock(ctx, r, passphrase, o)
}

// Volume is an unlocked volume: its header and its key; while the data is being
// reencrypted, its keys.
type Volume struct {
	Header  *Header       // what was unlocked
	Slot    int           // the keyslot that opened; -1 if the key was given
	Unbound bool          // the key belongs to no segment: it opens no data
	KDFTime time.Duration // time spent in KDFs

	digest int // the digest that verified the key
	key    *secret.Buffer
	more   []digestKey // further keys of the data, while it is being reencrypted
	noData error       // why the data of a volume in reencryption cannot be read with these keys
}

// Key returns the volume key itself, not a copy. It is valid until Close, and
// panics afterwards. It lies in locked memory where the system allows.
func (v *Volume) Key() []byte { return v.key.Bytes() }

// Close clears the keys. Further calls do nothing.
func (v *Volume) Close() {
	v.key.Destroy()
	for _, k := range v.more {
		k.key.Destroy()
	}
}

// Segments returns where the data lies and how it is encrypted, as
// Header.DataSegments does; SegmentKey gives the key of each. For a key that is
// not the data's (an unbound keyslot's) the error wraps ErrPolicy. Of a volume
// in the middle of a reencryption it wraps ErrWrongPassphrase where the data
// needs two keys and only one was found, and ErrHeaderCorrupt where the digest
// does not vouch for what the header says of it.
func (v *Volume) Segments() ([]Segment, error) {
	list, err := v.Header.DataSegments()
	if err != nil {
		return nil, err
	}
	if v.noData != nil {
		return nil, v.noData
	}
	for _, s := range list {
		if s.Type == typeCrypt && v.SegmentKey(s) == nil {
			return nil, fmt.Errorf("%w: the key of keyslot %d is not that of the data", ErrPolicy, v.Slot)
		}
	}
	return list, nil
}
