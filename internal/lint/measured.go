package lint

import (
	"reflect"

	"github.com/gabion-go/gabion/internal/facts"
)

// add returns what a file says of a dependency, and where it says nothing what was measured.
func add(said, measured facts.Facts) facts.Facts {
	fill(reflect.ValueOf(&said).Elem(), reflect.ValueOf(measured))
	return said
}

func fill(said, measured reflect.Value) {
	for i := range said.NumField() {
		switch field := said.Field(i); {
		case field.Kind() == reflect.Struct:
			fill(field, measured.Field(i))
		case field.IsZero():
			field.Set(measured.Field(i))
		}
	}
}
