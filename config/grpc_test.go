package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/policy"
)

func TestCodesOfGRPCAreReadByName(t *testing.T) {
	f, err := Parse("f", []byte("version: 1\ndependencies: {a: {grpc: {transient: [RESOURCE_EXHAUSTED, aborted], permanent: [data_loss]}}}"))
	if err != nil {
		t.Fatal(err)
	}
	got := f.Policies["a"].GRPC
	if !slices.Equal(got.Transient, []policy.GRPCCode{grpccode.ResourceExhausted, grpccode.Aborted}) || !slices.Equal(got.Permanent, []policy.GRPCCode{grpccode.DataLoss}) {
		t.Errorf("read %v", got)
	}
	again, err := Parse("f", []byte(view{f}.YAML(false)))
	if err != nil || !slices.Equal(again.Policies["a"].GRPC.Transient, got.Transient) {
		t.Errorf("printed and read again: %v, %v", again, err)
	}
}

func TestACodeThatDoesNotExistNamesItsNeighbour(t *testing.T) {
	_, err := Parse("f", []byte("version: 1\ndependencies: {a: {grpc: {transient: [unavailabel, 14]}}}"))
	if err == nil {
		t.Fatal("it was read")
	}
	for _, want := range []string{"f:2:", `"unavailabel"`, "did you mean UNAVAILABLE?", "14"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "OK is no failure") {
		t.Errorf("what could not be read is taken for OK:\n%v", err)
	}
}
