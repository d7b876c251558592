package volume

import (
	"errors"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/internal/probe"
	"github.com/xtsdisk/xtsdisk/luks"
)

// Errors on which callers decide. They come wrapped, by errors that name the
// path and the value: test with errors.Is. Those of the packages below come
// through as they are: lock.ErrInUse, and luks.ErrWrongPassphrase and its like.
var (
	// ErrExists: the target exists, or something lies on it, and Force was not
	// given.
	ErrExists = errors.New("target exists")
	// ErrSame: source and target are the same bytes.
	ErrSame = errors.New("source and target are the same")
	// ErrSourceChanged: the source shrank or grew while it was read.
	ErrSourceChanged = errors.New("source changed while it was read")
	// ErrIsLUKS: parameters of a plain volume were given for something that
	// has a LUKS header.
	ErrIsLUKS = errors.New("it has a LUKS header")
	// ErrTruncated: a LUKS volume's file ends before its data does.
	ErrTruncated = errors.New("volume is cut short")
	// ErrDetached: a header whose data is in another file was opened as if it
	// were the volume.
	ErrDetached = errors.New("the header is apart from its data")
	// ErrTable: the partition table that is to say where the volume lies cannot
	// be believed.
	ErrTable = probe.ErrTable
	// ErrUnrecoverable: where a reencryption was broken off, data is lost.
	ErrUnrecoverable = errors.New("data cannot be recovered")
	// ErrKind: a folder, a socket or the like where a file, a block device or
	// a pipe is needed; or a pipe where something else is.
	ErrKind = errors.New("wrong kind of file")

	// ErrSize: empty, too small, too large for the target, or not a multiple
	// of the sector size; the text then names the nearest sizes.
	ErrSize = luks.ErrSize
	// ErrOptions: options that contradict each other, lie outside their range,
	// or are missing where nothing is stored (plain volumes).
	ErrOptions = luks.ErrOption
	// ErrUnsupported: it exists, but this version cannot do it.
	ErrUnsupported = luks.ErrUnsupported
	// ErrPolicy: it could be done, and would be wrong to do.
	ErrPolicy = luks.ErrPolicy
	// ErrNoSpace: the file system or medium is full, whether this showed when
	// the space was reserved or on the way.
	ErrNoSpace = device.ErrNoSpace
)

// classified gives an error one of the sentinels without repeating it in the
// text.
type classified struct{ kind, err error }

func (e *classified) Error() string   { return e.err.Error() }
func (e *classified) Unwrap() []error { return []error{e.kind, e.err} }

// classify gives err the sentinel kind if it is one of reasons.
func classify(err error, kind error, reasons ...error) error {
	for _, reason := range reasons {
		if errors.Is(err, reason) {
			return &classified{kind, err}
		}
	}
	return err
}
