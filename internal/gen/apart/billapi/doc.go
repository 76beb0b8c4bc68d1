// Package billapi holds the client of bills.
package billapi

// A bill's methods may return the errors of the orders that they call.
import _ "github.com/shardgen/shardgen/internal/gen/apart/orderapi"
