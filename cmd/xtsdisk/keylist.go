package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/xtsdisk/xtsdisk/device/volume"
	"github.com/xtsdisk/xtsdisk/luks"
)

func newKeyList(a *app) *cobra.Command {
	var header string
	cmd := &cobra.Command{
		Use:     "list VOL",
		Short:   "list the keyslots of a volume",
		Long:    "Lists the keyslots of the LUKS volume VOL, and the tokens that are for them.",
		Example: `  xtsdisk key list disk.luks`,
		Args:    exactArgs(a, "VOL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withHeader(cmd.Context(), a, args[0], header, func(h *luks.Header) error { return listKeys(a, args[0], h) })
		},
	}
	registerReport(a, cmd)
	registerHeader(cmd, &header)
	return cmd
}

// withHeader reads a header for a report.
func withHeader(ctx context.Context, a *app, name, header string, job func(*luks.Header) error) error {
	if err := noStreams(name); err != nil {
		return err
	}
	h, err := volume.ReadHeader(ctx, name, volume.OpenOptions{Header: header, Inside: a.inside, Warn: a.warn})
	if err != nil {
		o := &openFlags{}
		return o.explainSource(a, name, "", err)
	}
	return job(h)
}

// keyListReport is the JSON report of key list.
type keyListReport struct {
	Schema  int         `json:"schema"`
	Volume  string      `json:"volume"`
	Version int         `json:"version"`
	Epoch   uint64      `json:"epoch"`
	Slots   []keyReport `json:"keyslots"`
}

type keyReport struct {
	ID        int        `json:"id"`
	Type      string     `json:"type"`
	Bits      int        `json:"key_bits"`
	Priority  string     `json:"priority"`
	Unbound   bool       `json:"unbound"`
	Cipher    string     `json:"cipher,omitempty"`
	CipherKey int        `json:"cipher_key_bits,omitempty"`
	AFHash    string     `json:"af_hash,omitempty"`
	KDF       *kdfReport `json:"kdf,omitempty"`
	Offset    int64      `json:"area_offset"`
	Size      int64      `json:"area_size"`
	Tokens    []int      `json:"tokens"`
}

type kdfReport struct {
	Type       string `json:"type"`
	Hash       string `json:"hash,omitempty"`
	Iterations int    `json:"iterations"`
	MemoryKiB  int    `json:"memory_kib,omitempty"`
	Threads    int    `json:"threads,omitempty"`
}

func newKeyReport(h *luks.Header, k *luks.Keyslot) keyReport {
	r := keyReport{
		ID: k.ID, Type: k.Type, Bits: k.KeySize * 8, Priority: priorities[k.Priority], Unbound: !bound(h, k.ID),
		Cipher: k.Area.Cipher, CipherKey: k.Area.KeySize * 8, AFHash: k.AF.Hash,
		Offset: k.Area.Offset, Size: k.Area.Size, Tokens: []int{},
	}
	if k.KDF.Type != "" {
		r.KDF = &kdfReport{k.KDF.Type, k.KDF.Hash, k.KDF.Iterations, k.KDF.MemoryKiB, k.KDF.Threads}
	}
	for _, t := range h.Tokens {
		if slices.Contains(t.Keyslots, k.ID) {
			r.Tokens = append(r.Tokens, t.ID)
		}
	}
	return r
}

// bound tells whether a keyslot holds the key of a segment.
func bound(h *luks.Header, slot int) bool {
	return slices.ContainsFunc(h.Digests, func(d luks.Digest) bool {
		return slices.Contains(d.Keyslots, slot) && len(d.Segments) > 0
	})
}

func listKeys(a *app, name string, h *luks.Header) error {
	r := keyListReport{Schema: schemaVersion, Volume: name, Version: h.Version, Epoch: h.SeqID, Slots: []keyReport{}}
	for i := range h.Keyslots {
		r.Slots = append(r.Slots, newKeyReport(h, &h.Keyslots[i]))
	}
	if a.json {
		return printJSON(a.io.out, r)
	}
	if len(r.Slots) == 0 {
		a.note("%s has no keyslots: only the volume key opens it", name)
		return nil
	}
	return table(a.io.out, "SLOT\tKEY\tPRIORITY\tKEY DERIVATION\tCIPHER\tTOKENS", func(row func(...any)) {
		for i, k := range r.Slots {
			kind := fmt.Sprintf("%d bits", k.Bits)
			if k.Unbound {
				kind += ", unbound"
			}
			kdf := k.Type
			if k.KDF != nil {
				kdf = describeKDF(h.Keyslots[i].KDF)
			}
			row(k.ID, kind, k.Priority, kdf, k.Cipher, tokenNames(h, k.Tokens))
		}
	})
}

func tokenNames(h *luks.Header, ids []int) string {
	var out []string
	for _, t := range h.Tokens {
		if slices.Contains(ids, t.ID) {
			out = append(out, fmt.Sprintf("%d %s", t.ID, t.Type))
		}
	}
	if len(out) == 0 {
		return "-"
	}
	return strings.Join(out, ", ")
}

// table prints rows in columns. Text out of headers cannot act on a terminal.
func table(out io.Writer, head string, rows func(row func(...any))) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, head)
	rows(func(cells ...any) {
		text := make([]string, len(cells))
		for i, c := range cells {
			text[i] = visible(fmt.Sprint(c))
		}
		fmt.Fprintln(w, strings.Join(text, "\t"))
	})
	return w.Flush()
}
