package secret

// erasedStack is how many bytes EraseStack overwrites: several times what the
// hash functions and KDFs of the standard library and x/crypto use.
const erasedStack = 16 << 10

// EraseStack overwrites the stack below the caller's frame, where functions
// that the caller has called kept their variables. It is best called before
// them, too: a stack that has to grow is copied, and the old one left as it is.
// The garbage collector may move a stack at any time, so this reduces what is
// left, and promises nothing.
//
//go:noinline
func EraseStack() { eraseStack(0) }

// eraseStack has an index that the compiler does not know, so it cannot leave
// out clearing the array.
//
//go:noinline
func eraseStack(i int) byte {
	var below [erasedStack]byte
	return below[i]
}
