package counting

import "slices"

// OtherMethod is the name under which calls of methods that a type does not have are counted.
const OtherMethod = "_OTHER"

// Methods numbers the methods of a type from 1, without gaps, in the order of their names. 0 is the
// number of any other name.
type Methods struct {
	names []string
	table []uint16 // of numbers, with open addressing; 0 is an empty place
}

// NewMethods numbers the methods with these names.
func NewMethods(names []string) Methods {
	m := Methods{names: slices.Clone(names), table: make([]uint16, 4)}
	slices.Sort(m.names)
	for len(m.table) < 4*len(names) {
		m.table = append(m.table, m.table...)
	}
	for i, name := range m.names {
		at := m.place(name)
		for m.table[at] != 0 {
			at = (at + 1) & (len(m.table) - 1)
		}
		m.table[at] = uint16(i + 1)
	}
	return m
}

// place returns where the search for a name begins in the table. It reads only one byte of the
// name, because a local call has no time for more.
func (m *Methods) place(name string) int {
	if name == "" {
		return 0
	}
	return (len(name)*5 + int(name[len(name)-1])) & (len(m.table) - 1)
}

// Number returns the number of a method.
func (m *Methods) Number(name string) int {
	for at := m.place(name); ; at = (at + 1) & (len(m.table) - 1) {
		n := int(m.table[at])
		if n == 0 || m.names[n-1] == name {
			return n
		}
	}
}

// Name returns the name of the method with that number.
func (m *Methods) Name(number int) string {
	if number < 1 || number > len(m.names) {
		return OtherMethod
	}
	return m.names[number-1]
}
