/** Counts the assertions of a test, so that one without any fails: it could never notice a fault. */
import { chai } from "vitest"

let count = 0

// `assert.*` and `expect` both end here.
const { assert } = chai.Assertion.prototype
chai.Assertion.prototype.assert = function (...args) {
  count++
  return assert.apply(this, args)
}

/** Returns the number of assertions since the last call. */
export const taken = (): number => {
  const taken = count
  count = 0
  return taken
}
