package volume

import "time"

// Phases of a job, as Progress.Phase has them.
const (
	PhaseKDF  = "kdf"  // a key is derived; no amount
	PhaseData = "data" // bytes of plaintext are copied
	PhaseSync = "sync" // what was written is made durable; no amount
)

// Progress is one step of a job. It is given often (every chunk); the callee
// decides how much of it to show, and must not block.
type Progress struct {
	Phase string // one of the Phase constants
	Done  int64  // bytes
	Total int64  // bytes; -1: not known
}

// Report is what a job did.
type Report struct {
	Bytes      int64 // bytes of plaintext in the volume, padding included
	HoleBytes  int64 // of those, bytes not read because the source has holes there
	ZeroBytes  int64 // of those, bytes of zero that became holes in the target
	Padding    int64 // zeros added after the source's end (only when asked)
	SectorSize int   // encryption sector size of the volume
	// SectorReason says why the sector size is that, if it was not given.
	SectorReason string
	DataOffset   int64 // where the volume's data begins in its file or device

	KDFTime  time.Duration // deriving the key (and making the header)
	DataTime time.Duration // copying and transforming
	SyncTime time.Duration // flush, rename and the like

	Warnings []string // lower-case sentences without a final full stop
}
