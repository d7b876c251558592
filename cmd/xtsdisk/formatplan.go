package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/xtsdisk/xtsdisk/device/volume"
	"github.com/xtsdisk/xtsdisk/luks"
)

// sectorValue is --sector-size of a new volume: a number of bytes, or auto,
// which is 0.
type sectorValue int

func (s *sectorValue) Type() string { return "BYTES" }

func (s *sectorValue) String() string {
	if s == nil || *s == 0 {
		return "auto"
	}
	return strconv.Itoa(int(*s))
}

func (s *sectorValue) Set(text string) error {
	if text == "auto" {
		*s = 0
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("%q is neither auto nor a number of bytes", text)
	}
	*s = sectorValue(n)
	return nil
}

// sectors tells the sector size, and why it is that one.
func sectors(r volume.Report, use string) string {
	text := fmt.Sprintf("sectors of %d bytes", r.SectorSize)
	switch {
	case r.SectorReason != "":
		text += " (" + r.SectorReason + ")"
	case use == useVM:
		text += " (--for vm)"
	}
	return text
}

// apart names the file of a detached header.
func apart(header string) string {
	if header == "" {
		return ""
	}
	return "header in " + header
}

// fileSize works out what --usable asks for.
func (v *formatVerb) fileSize(o luks.FormatOptions) error {
	fs := v.volume.fs
	if !fs.Changed("usable") {
		return nil
	}
	if fs.Changed("create") {
		return usagef("give one of them", "--create and --usable both say how large the file is to be")
	}
	o.Detached = v.volume.header != ""
	var err error
	if v.create.bytes, err = volume.FileSize(o, v.usable.bytes); errors.Is(err, volume.ErrSize) {
		return withHint(err, "sizes are whole sectors")
	}
	return err
}

// planReport is the JSON report of format --plan.
type planReport struct {
	Schema         int    `json:"schema"`
	Target         string `json:"target"`
	Version        int    `json:"version"`
	Cipher         string `json:"cipher"`
	KeyBits        int    `json:"key_bits"`
	SectorSize     int    `json:"sector_size"`
	SectorWhy      string `json:"sector_size_reason,omitempty"`
	MetadataSize   int64  `json:"metadata_size,omitempty"`
	KeyslotsOffset int64  `json:"keyslots_offset"`
	KeyslotsSize   int64  `json:"keyslots_size"`
	KeyslotSize    int64  `json:"keyslot_size"`
	Keyslots       int    `json:"keyslots"`
	HeaderSize     int64  `json:"header_size"`
	DataOffset     int64  `json:"data_offset"`
	Usable         int64  `json:"usable"`
	File           int64  `json:"file,omitempty"` // bytes of the file that would be made
}

func (v *formatVerb) showPlan(name string, o luks.FormatOptions) error {
	p, r, err := volume.Plan(volume.FormatOptions{Path: name, Header: v.volume.header, Create: v.create.bytes, Luks: o, Warn: v.a.warn})
	if err != nil {
		return v.explain(name, naming(name, err))
	}
	if v.a.json {
		return printJSON(v.a.io.out, planReport{
			Schema: schemaVersion, Target: name, Version: p.Version, Cipher: p.Cipher, KeyBits: p.KeySize * 8,
			SectorSize: p.SectorSize, SectorWhy: r.SectorReason, MetadataSize: p.MetadataSize,
			KeyslotsOffset: p.KeyslotsOffset, KeyslotsSize: p.KeyslotsSize, KeyslotSize: p.KeyslotSize, Keyslots: p.Keyslots,
			HeaderSize: p.HeaderSize, DataOffset: p.DataOffset, Usable: p.DataSize, File: v.create.bytes,
		})
	}
	r.SectorSize = p.SectorSize
	return table(v.a.io.out, fmt.Sprintf("LUKS%d\tOFFSET\tBYTES\t", p.Version), func(row func(...any)) {
		if p.MetadataSize > 0 {
			row("header", 0, p.MetadataSize, "")
			row("header copy", p.MetadataSize, p.MetadataSize, "")
		} else {
			row("header", 0, p.KeyslotsOffset, "")
		}
		row("keyslots", p.KeyslotsOffset, p.KeyslotsSize, fmt.Sprintf("room for %d of %d bytes", p.Keyslots, p.KeyslotSize))
		where := ""
		if v.volume.header != "" {
			where = "header in " + v.volume.header + ", " + formatExact(p.HeaderSize)
		}
		row("data", p.DataOffset, p.DataSize, sentence(formatSize(p.DataSize)+" usable", sectors(r, v.volume.use), fmt.Sprintf("%s, %d bits", p.Cipher, p.KeySize*8), where))
	})
}
