/** docs/do/health.md has the defaults of the code. Its programs are run by `scripts/pages.ts`. */
import { readFileSync } from "node:fs"
import { assert, describe, it } from "@effect/vitest"
import { Alerts, ConnectionMonitor, HealthWindow } from "@outlast/resilience"

describe("docs/do/health.md", () => {
  const text = readFileSync(new URL("../../../../docs/do/health.md", import.meta.url), "utf8")

  it("has the defaults of the code", () => {
    const { interval, timeout, cooldown, maxIdle, idleFor } = ConnectionMonitor.defaults
    const { span, size, minimum, unhealthyAt, recovery } = HealthWindow.defaults
    const rows = {
      interval,
      timeout,
      cooldown,
      maxIdle: maxIdle.toLocaleString("en"),
      idleFor,
      "window.span": span,
      "window.size": size,
      "window.minimum": minimum,
      "window.unhealthyAt": unhealthyAt,
      "window.recovery": recovery
    }
    for (const [option, value] of Object.entries(rows)) {
      assert.match(text, new RegExp(`\\| \`${option}\` +\\| ${value} +\\|`))
    }
    assert.include(text, `${Alerts.defaults.failures} failures in ${Alerts.defaults.window}`)
  })
})
