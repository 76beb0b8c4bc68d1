// Package browser tests the dashboard's page in headless Chromium, on live clusters of 3 and of 100
// members. It is a module of its own, so that others do not link a browser protocol. Without
// Chromium the tests are skipped. The environment variable AXE names the file axe.min.js of
// axe-core (npm pack axe-core), which then checks each page.
//
//	SCREENSHOTS=/tmp go test -C runtime/admin/dashboard/browser -v .
package browser
