package recording

import (
	"fmt"
	"strconv"
	"strings"
)

// ID names a call within one recording: the number of the run that it was made in, from
// 1, and the number of the call there. A Run of 0 leaves the run open: what is meant is the
// last run that has such a call. The zero ID names none. IDs are comparable.
type ID struct {
	Run  int
	Call uint64
}

// String returns "1.17" for call 17 of the first run, and "17" where the run is open.
func (id ID) String() string {
	if id.Run <= 0 {
		return strconv.FormatUint(id.Call, 10)
	}
	return fmt.Sprintf("%d.%d", id.Run, id.Call)
}

// ParseID reads what String returns.
func ParseID(text string) (ID, error) {
	run, call, named := strings.Cut(text, ".")
	if !named {
		call = text
	}
	var id ID
	var err error
	if named {
		var n uint64
		n, err = strconv.ParseUint(run, 10, 31)
		id.Run = int(n)
	}
	if err == nil {
		id.Call, err = strconv.ParseUint(call, 10, 64)
	}
	if err != nil || named && id.Run == 0 || id.Call == 0 {
		return ID{}, fmt.Errorf("%q is no call: write its number, 17, or 1.17 for one of the first run in the file", text)
	}
	return id, nil
}
