package record

import (
	"fmt"
	"strconv"
	"strings"
)

// ID names a call within one recording: the number of the run that it was made in, from
// 1, and the number of the call there. The zero ID names none. IDs are comparable.
type ID struct {
	Run  int
	Call uint64
}

// String returns "17" for call 17 of the first run, and "2.17" for that of the second.
func (id ID) String() string {
	if id.Run <= 1 {
		return strconv.FormatUint(id.Call, 10)
	}
	return fmt.Sprintf("%d.%d", id.Run, id.Call)
}

// ParseID reads what String returns; "1.17" is the same as "17".
func ParseID(text string) (ID, error) {
	run, call, two := strings.Cut(text, ".")
	if !two {
		run, call = "1", text
	}
	id := ID{}
	n, err := strconv.ParseUint(run, 10, 31)
	id.Run = int(n)
	if err == nil {
		id.Call, err = strconv.ParseUint(call, 10, 64)
	}
	if err != nil || id.Run == 0 || id.Call == 0 {
		return ID{}, fmt.Errorf("%q is no call: write its number, 17, or 2.17 for one of the second run in the file", text)
	}
	return id, nil
}
