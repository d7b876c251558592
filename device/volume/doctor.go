package volume

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/luks"
)

// DoctorOptions says what Examine looks at.
type DoctorOptions struct {
	// Open says where the volume and its header are, what opens it, and at what
	// cost. Without passphrase, key, token and Ask only the header is examined.
	Open OpenOptions
	// Mistakes also tries what a passphrase that does not open may have been
	// meant to be: other line ends and Unicode forms, other keyboard layouts.
	Mistakes bool
	// MaxRuns is the most key derivations that are run; 0 means 100.
	MaxRuns int
	// Plan, if set, is told before any is run how many key derivations there
	// will be at most and how long they take by fixed rates (see
	// luks.KDF.EstimatedTime).
	Plan func(runs int, estimate time.Duration)
}

// defaultRuns is MaxRuns unless it is given.
const defaultRuns = 100

// FindingKind is what a Finding is about.
type FindingKind string

// What Examine tells apart.
const (
	NotAVolume      FindingKind = "not-a-volume"
	HeaderDamaged   FindingKind = "header-damaged" // no copy is whole
	CopyDamaged     FindingKind = "header-copy-damaged"
	CopyOld         FindingKind = "header-copy-old"
	Unsupported     FindingKind = "unsupported"
	Refused         FindingKind = "refused" // by the policy
	Truncated       FindingKind = "truncated"
	KeyslotDamaged  FindingKind = "keyslot-damaged"
	KeyslotOpens    FindingKind = "keyslot-opens"
	WrongPassphrase FindingKind = "wrong-passphrase"
	MistakeFound    FindingKind = "passphrase-mistake"
	MistakesTried   FindingKind = "passphrase-mistakes-tried"
	NotTried        FindingKind = "not-tried"
	DataFound       FindingKind = "data-found"
	DataUnknown     FindingKind = "data-unknown"
	WrongSectors    FindingKind = "wrong-sector-size" // or IVs
	Reencrypting    FindingKind = "reencryption"
)

// Severity says what a Finding means for the volume.
type Severity string

// Severities.
const (
	Good    Severity = "good"
	Note    Severity = "note"
	Warning Severity = "warning" // the volume opens, but should be seen to
	Bad     Severity = "bad"     // it does not open, or not as it should
)

// Finding is one thing that was found out.
type Finding struct {
	Kind     FindingKind // what it is about
	Severity Severity    // what it means
	Text     string      // a sentence in lower case without a final full stop
	Keyslot  int         // -1: none
	Offset   int64       // bytes; -1: none
	Size     int64       // bytes at Offset
	Err      error       // the reason, if it is an error
}

// Diagnosis is what Examine found out.
type Diagnosis struct {
	Header   *luks.Header // nil if none can be read
	Copies   []luks.CopyState
	Areas    []luks.AreaState
	Findings []Finding
	Runs     int // key derivations that were run
}

// Err returns the reason of the first bad finding, or nil.
func (d *Diagnosis) Err() error {
	for _, f := range d.Findings {
		if f.Severity == Bad {
			return f.Err
		}
	}
	return nil
}

func (d *Diagnosis) add(kind FindingKind, s Severity, err error, format string, args ...any) *Finding {
	d.Findings = append(d.Findings, Finding{Kind: kind, Severity: s, Text: fmt.Sprintf(format, args...), Keyslot: -1, Offset: -1, Err: err})
	return &d.Findings[len(d.Findings)-1]
}

// Examine finds out what is wrong with the volume at path. It writes nothing.
// What it finds is no error; errors are those of finding and reading, and of
// Open.Ask.
func Examine(ctx context.Context, path string, o DoctorOptions) (*Diagnosis, error) {
	if o.MaxRuns == 0 {
		o.MaxRuns = defaultRuns
	}
	x := &examination{run: run{system: host}, DoctorOptions: o, path: path}
	defer x.close()
	if err := x.examine(ctx); err != nil {
		return nil, err
	}
	return &x.Diagnosis, nil
}

// examination is one Examine under way.
type examination struct {
	run
	DoctorOptions
	Diagnosis
	path       string
	data, head device.Device // head is data unless the header is detached
}

func (x *examination) close() {
	for _, d := range []device.Device{x.data, x.head} {
		if d != nil {
			d.Close()
		}
	}
}

func (x *examination) examine(ctx context.Context) (err error) {
	if x.data, err = x.openInside(x.path, x.Open.Inside); err != nil {
		return err
	}
	x.head = x.data
	path := x.path
	if x.Open.Header != "" {
		path = x.Open.Header
		if x.head, err = x.openHeader(path); err != nil {
			return err
		}
	}
	release, err := x.holdHeader(ctx, path)
	if err != nil {
		return err
	}
	x.Copies = luks.InspectCopies(x.head, x.head.Size())
	release()
	x.Header, err = x.readHeader(ctx, path, x.head, x.head.Size())
	if err != nil {
		return x.noHeader(err)
	}
	x.judgeCopies()
	x.judgeSupport()
	x.judgeSize()
	if err := x.judgeAreas(); err != nil {
		return err
	}
	v, err := x.tryToOpen(ctx, path)
	if v == nil || err != nil {
		return err
	}
	defer v.Close()
	return x.judgeData(v)
}

// noHeader says why no header could be read.
func (x *examination) noHeader(err error) error {
	switch {
	case errors.Is(err, luks.ErrNotLUKS):
		x.add(NotAVolume, Bad, err, "there is no LUKS header; it holds %s", held(x.head, x.head.Size()))
	case errors.Is(err, luks.ErrHeaderCorrupt):
		x.add(HeaderDamaged, Bad, err, "the header cannot be read: %v", err)
	case errors.Is(err, luks.ErrUnsupported):
		x.add(Unsupported, Bad, err, "%v", err)
	default:
		return err
	}
	return nil
}

func (x *examination) judgeCopies() {
	for _, c := range x.Copies {
		if c.Err != nil {
			f := x.add(CopyDamaged, Warning, c.Err, "the %s header at byte %d is damaged: %v", c.Copy, c.Offset, c.Err)
			f.Offset, f.Size = c.Offset, x.Header.Size
		} else if c.Epoch < x.Header.SeqID {
			f := x.add(CopyOld, Warning, nil, "the %s header at byte %d is older than the other one: epoch %d, not %d", c.Copy, c.Offset, c.Epoch, x.Header.SeqID)
			f.Offset, f.Size = c.Offset, x.Header.Size
		}
	}
}

// judgeSupport says what this version lacks to open the data.
func (x *examination) judgeSupport() {
	for _, s := range x.Header.Config.Requirements {
		if strings.Contains(s, "reencrypt") {
			x.add(Reencrypting, Note, nil, "a reencryption is under way (requirement %s): the header describes the data as it is at this moment", s)
		}
	}
	err := x.Header.Openable(x.Open.Policy)
	switch {
	case err == nil:
	case errors.Is(err, luks.ErrUnsupported):
		x.add(Unsupported, Bad, err, "%v", err)
	case errors.Is(err, luks.ErrPolicy), errors.Is(err, luks.ErrNoMemory):
		x.add(Refused, Bad, err, "%v", err)
	default:
		x.add(HeaderDamaged, Bad, err, "%v", err)
	}
}

// judgeSize finds out whether the file ends too early.
func (x *examination) judgeSize() {
	short := func(format string, args ...any) {
		f := x.add(Truncated, Bad, ErrTruncated, format, args...)
		f.Offset, f.Size = x.data.Size(), 0
	}
	if end := x.Header.End(); x.head.Size() < end {
		f := x.add(Truncated, Bad, ErrTruncated, "the header reaches to byte %d with its keyslots, but the file ends at byte %d", end, x.head.Size())
		f.Offset = x.head.Size()
	}
	if x.Header.Detached() && x.Open.Header == "" {
		x.add(NotTried, Note, nil, "the header is detached: name the file with the data, and this one as its header, to examine both")
		return
	}
	segments, err := x.Header.DataSegments()
	if err != nil {
		return // said already
	}
	for _, s := range segments {
		switch size := x.data.Size(); {
		case s.Offset >= size:
			short("the data begins at byte %d, but the file ends at byte %d", s.Offset, size)
		case s.Size > size-s.Offset:
			short("segment %d has %d bytes from byte %d on, but the file ends at byte %d", s.ID, s.Size, s.Offset, size)
		case s.Size < 0 && (size-s.Offset)%int64(max(s.SectorSize, 1)) != 0:
			over := (size - s.Offset) % int64(s.SectorSize)
			f := x.add(Truncated, Warning, nil, "the last %d bytes are less than a sector of %d: the file may be cut short", over, s.SectorSize)
			f.Offset, f.Size = size-over, over
		}
	}
}

// judgeAreas measures what lies in the keyslots.
func (x *examination) judgeAreas() error {
	for _, k := range x.Header.Keyslots {
		a, err := x.Header.InspectArea(x.head, k.ID)
		if errors.Is(err, luks.ErrNoKeyslot) {
			continue
		}
		if err != nil {
			return err
		}
		x.Areas = append(x.Areas, a)
		if a.Bad == 0 && a.Missing == 0 {
			continue
		}
		f := x.add(KeyslotDamaged, Warning, luks.ErrKeyslotDamaged, "keyslot %d is damaged: %s; no passphrase opens it any more", k.ID, damageText(&a))
		f.Keyslot = k.ID
		if f.Offset, f.Size = a.Offset+a.Measured, a.Missing; len(a.Damaged) > 0 {
			f.Offset, f.Size = a.Damaged[0].Offset, a.Damaged[0].Size
		}
	}
	return nil
}

func damageText(a *luks.AreaState) string {
	if a.Bad == 0 {
		return fmt.Sprintf("the last %d bytes of its area are behind the end of the file", a.Missing)
	}
	text := fmt.Sprintf("%d of its %d sectors do not hold encrypted data (χ² up to %.0f, where that stays below 600), ", a.Bad, a.Sectors, a.MaxChi2)
	for i, r := range a.Damaged {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%d bytes at byte %d", r.Size, r.Offset)
	}
	return text
}
