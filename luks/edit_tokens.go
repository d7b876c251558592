package luks

import (
	"context"
	"fmt"
	"strconv"
)

// AnyToken as AddToken's id takes the first that is free.
const AnyToken = -1

// AddToken stores a token object, as CheckToken takes it, under an ID that is
// free; with replace also under one that is not. The text is kept byte for
// byte. It returns the ID. LUKS2 only. Errors wrap ErrOption (not a token; in
// use), ErrSize (no room) and those of Edit.
func (e *Editor) AddToken(ctx context.Context, id int, text []byte, replace bool) (int, error) {
	t, err := CheckToken(text)
	if err != nil {
		return 0, err
	}
	err = e.edit(ctx, func(h *Header, root *jsonNode) error {
		tokens := root.child("tokens")
		if id == AnyToken {
			if id = freeID(tokens.names(), maxObjects); id < 0 {
				return fmt.Errorf("%w: all %d tokens are in use", ErrSize, maxObjects)
			}
		}
		if id < 0 || id >= maxObjects {
			return fmt.Errorf("%w: token %d is not from 0 to %d", ErrOption, id, maxObjects-1)
		}
		if tokens.child(strconv.Itoa(id)) != nil && !replace {
			return fmt.Errorf("%w: token %d is in use", ErrOption, id)
		}
		for _, k := range t.Keyslots {
			if h.keyslot(k) == nil {
				return fmt.Errorf("%w: token for keyslot %d, which does not exist", ErrOption, k)
			}
		}
		tokens.set(strconv.Itoa(id), t.JSON)
		return nil
	})
	return id, err
}

// RemoveToken removes a token. LUKS2 only.
func (e *Editor) RemoveToken(ctx context.Context, id int) error {
	return e.edit(ctx, func(_ *Header, root *jsonNode) error {
		tokens := root.child("tokens")
		if tokens.child(strconv.Itoa(id)) == nil {
			return fmt.Errorf("%w: there is no token %d", ErrOption, id)
		}
		tokens.remove(strconv.Itoa(id))
		return nil
	})
}
