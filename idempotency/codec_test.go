package idempotency

import (
	"encoding/hex"
	"math"
	"reflect"
	"testing"
	"time"
)

// What stores hold was written by earlier programs. These are the bytes that they wrote:
// they must be read for ever, and are still written as long as the version is 1.
func TestRecordsOfEarlierProgramsAreRead(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Record
	}{
		{"a result", "0103010102000000000000000000000000000000000000000000000000000000000009070000000000000000000000000000088089bea2dbffad060600aab4f6b485e1add731aadcccee8ce1add731aadcc4839f86d5d7318080f89492a52701066368617267650463685f31920302084c6f636174696f6e022f31045661727901410108436865636b73756d01780004626f64799e972aec", Record{
			State: 3, Guarantee: 1, Token: 1790000000123456, Attempt: 3, Fingerprint: [32]byte{1, 2, 31: 9}, Owner: [16]byte{7, 15: 8},
			Created: 1790000000123456789, Finished: 1790000001123456789, Expires: 1790086401123456789, Retention: 24 * time.Hour,
			Points: []Point{{"charge", []byte("ch_1")}},
			Result: Result{Status: 201, Header: []Field{{"Location", "/1"}, {"Vary", "A"}}, Trailer: []Field{{"Checksum", "x"}}, Body: []byte("body")},
		}},
		{"a run without an end", "0101000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000a02feffffffffffffffff010f0000020000000000006a72f316", Record{
			State: 1, Token: 5, Attempt: 1, Created: -8, LeaseUntil: math.MaxInt64, Retention: 1,
		}},
	} {
		b, err := hex.DecodeString(c.text)
		if err != nil {
			t.Fatal(err)
		}
		var got Record
		if err := got.UnmarshalBinary(b); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v, want %+v", c.name, got, err, c.want)
		}
		if again, err := c.want.MarshalBinary(); err != nil || hex.EncodeToString(again) != c.text {
			t.Errorf("%s is written as %x, %v", c.name, again, err)
		}
	}
}

func TestMomentsEndAtNever(t *testing.T) {
	const never = Moment(math.MaxInt64)
	if got := never.Add(-time.Hour); got != never {
		t.Errorf("an hour before never is %d", got)
	}
	if got := Moment(math.MaxInt64 - 5).Add(10); got != never {
		t.Errorf("the far future is %d", got)
	}
	if got := never.Sub(-8); got != math.MaxInt64 {
		t.Errorf("never is %v away", got)
	}
	if got := Moment(5).Add(-8).Sub(-4); got != 1 {
		t.Errorf("%v", got)
	}
}
