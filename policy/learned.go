package policy

// LimitCause says why a learned limit moved. The zero LimitCause is of a limit that a
// policy set.
type LimitCause uint8

// The causes.
const (
	LimitSet     LimitCause = iota // by the policy
	LimitGrew                      // all slots were in use, and attempts took no longer than usual
	LimitTried                     // fewer are allowed for a moment, to see whether attempts get faster
	LimitFound                     // that trial has shown how many are right
	LimitCrowded                   // the dependency answered too often that it has no room
	LimitStarved                   // next to nothing was answered in time
	LimitBack                      // what lowered it is over, or was not its to cure
	numLimitCauses
)

var limitCauseText = [numLimitCauses]string{
	LimitSet: "set", LimitGrew: "grew", LimitTried: "tried", LimitFound: "found",
	LimitCrowded: "crowded", LimitStarved: "starved", LimitBack: "back",
}

// String returns the text that logs use.
func (c LimitCause) String() string { return word(limitCauseText[:], c) }

// MarshalText returns that text, and an error for an unknown value.
func (c LimitCause) MarshalText() ([]byte, error) { return marshalWord(limitCauseText[:], c) }

// UnmarshalText reads that text; on an error c stays as it was.
func (c *LimitCause) UnmarshalText(text []byte) error {
	return unmarshalWord(limitCauseText[:], c, text)
}
