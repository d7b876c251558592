package volume

import (
	"fmt"
	"math"

	"github.com/xtsdisk/xtsdisk/device"
	"github.com/xtsdisk/xtsdisk/luks"
)

// A LUKS2 volume whose data has several segments is a payload of parts, each
// with its own place, cipher and IVs, or not encrypted (segment type linear).

// part is one segment of a payload.
type part struct {
	payload       // cipher is nil if it is not encrypted
	start   int64 // where it begins in the plaintext, in bytes
}

// partsPayload is the payload of several segments, each with its key.
func partsPayload(list []luks.Segment, key func(luks.Segment) []byte, creating bool) (_ *payload, err error) {
	p := &payload{offset: list[0].Offset, size: 0, ifShort: ErrTruncated}
	defer func() {
		if err != nil {
			p.wipe()
		}
	}()
	for _, s := range list {
		one, err := segmentPayload(s, key(s), creating)
		if err != nil {
			return nil, err
		}
		p.parts = append(p.parts, &part{payload: *one, start: p.size})
		if one.cipher != nil {
			p.spec = one.spec
		}
		switch {
		case one.size < 0:
			p.size = -1 // it is the last
		case one.size > math.MaxInt64-p.size:
			return nil, fmt.Errorf("%w: segment %d: %d bytes behind %d others", luks.ErrHeaderCorrupt, s.ID, one.size, p.size)
		default:
			p.size += one.size
		}
	}
	for _, one := range p.parts {
		if one.start%int64(p.sectorSize()) != 0 {
			return nil, fmt.Errorf("%w: sectors of %d bytes, and a segment that begins at byte %d of the data", ErrUnsupported, p.sectorSize(), one.start)
		}
	}
	return p, nil
}

// contiguous tells whether the parts lie behind each other as in the
// plaintext, so that it can be read from first to last.
func (p *payload) contiguous() bool {
	for _, one := range p.parts {
		if one.offset-p.offset != one.start {
			return false
		}
	}
	return true
}

// wipe clears the keys.
func (p *payload) wipe() {
	if p.hot != nil {
		p.hot.wipe()
	}
	if p.cipher != nil {
		p.cipher.Wipe()
	}
	for _, one := range p.parts {
		one.wipe()
	}
}

// eachPart calls f for the parts that n bytes from off lie in: from and to say
// which of the n bytes, at where in the part.
func (p *payload) eachPart(off, n int64, f func(one *part, from, to, at int64) error) error {
	for i, one := range p.parts {
		end := int64(math.MaxInt64)
		if i+1 < len(p.parts) {
			end = p.parts[i+1].start
		}
		from, to := max(off, one.start), min(off+n, end)
		if from >= to {
			continue
		}
		if err := f(one, from-off, to-off, from-one.start); err != nil {
			return err
		}
	}
	return nil
}

// decryptParts is decrypt for a payload of parts.
func (p *payload) decryptParts(dst, src []byte, off int64) error {
	return p.eachPart(off, int64(len(src)), func(one *part, from, to, at int64) error {
		if one.cipher == nil {
			copy(dst[from:to], src[from:to])
			return nil
		}
		return one.decrypt(dst[from:to], src[from:to], at)
	})
}

// section is the window of d that the payload fills, size bytes of data, as it
// is stored.
func (p *payload) section(d device.Device, size int64) device.Device {
	d = p.recovered(d)
	if p.contiguous() {
		return device.NewSection(d, p.offset, size)
	}
	var list []device.Device
	for _, one := range p.parts {
		list = append(list, one.section(d, one.sizeIn(size)))
	}
	return device.NewConcat(list...)
}

// view is the plaintext of the size bytes of data in d.
func (p *payload) view(d device.Device, size int64) device.Device {
	d = p.recovered(d)
	if len(p.parts) == 0 {
		return device.NewCrypt(device.NewSection(d, p.offset, size), p.cipher, device.CryptOptions{IVOffset: p.ivSector})
	}
	var list []device.Device
	for _, one := range p.parts {
		if n := one.sizeIn(size); one.cipher == nil {
			list = append(list, device.NewSection(d, one.offset, n))
		} else {
			list = append(list, one.view(d, n))
		}
	}
	return device.NewConcat(list...)
}

// sizeIn is the part's share of size bytes of data.
func (one *part) sizeIn(size int64) int64 {
	if one.size < 0 {
		return size - one.start
	}
	return one.size
}

// fitParts is fit for a payload of parts.
func (r *run) fitParts(p *payload, path string, size int64) (data int64, err error) {
	for _, one := range p.parts {
		n, err := r.fit(&one.payload, path, size)
		if err != nil {
			return 0, err
		}
		data += n
	}
	return data, nil
}
