// Package volume is the one place that knows both luks and device: it turns an
// unlocked header (or the parameters of a plain volume) into a device.Device,
// and holds the jobs on whole volumes: Encrypt, Decrypt, Format, Open.
//
// Every job checks before it writes: that target and source are not the same
// bytes under two names, that nobody else has the target mounted, mapped,
// locked or open for writing, and that the sizes fit. A regular file comes into
// being under a temporary name and is renamed when it is durable, so that a run
// that fails, is cancelled or loses power leaves nothing that looks finished.
// A block device cannot be renamed; there, what the old contents are recognised
// by is wiped first and what the new ones are recognised by (the LUKS header,
// a filesystem's signature) is written last, each step made durable before the
// next begins.
//
// Sizes and offsets are bytes unless a name says otherwise.
package volume
