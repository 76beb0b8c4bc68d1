// Package billapi has the client of Bill.
package billapi

// Methods of a bill may return the declared errors of the orders that they call.
import _ "github.com/shardgen/shardgen/internal/gen/apart/orderapi"
