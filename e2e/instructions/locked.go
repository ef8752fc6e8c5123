package main

// The prefixes of amd64's instructions that may stand before the operation, except REX.
const (
	lockPrefix  = 0xF0
	repeatNot   = 0xF2
	repeatTimes = 0xF3
)

// instruction is what has to be known of one.
type instruction struct {
	locks      bool // it locks a cache line
	repeats    bool // it may repeat itself, as REP MOVSQ does
	breakpoint bool
}

// decode reads the beginning of an instruction of amd64. XCHG with memory locks without a prefix.
func decode(code []byte) (i instruction) {
	for len(code) > 1 {
		switch b := code[0]; b {
		case lockPrefix:
			i.locks = true
		case repeatNot, repeatTimes:
			i.repeats = true
		case 0x66, 0x67, 0x2E, 0x36, 0x3E, 0x26, 0x64, 0x65: // sizes and segments
		default:
			if b&0xF0 == 0x40 { // REX comes last
				code = code[1:]
			}
			i.breakpoint = b == 0xCC
			if (code[0] == 0x86 || code[0] == 0x87) && len(code) > 1 && code[1] < 0xC0 {
				i.locks = true
			}
			return i
		}
		code = code[1:]
	}
	return i
}
