/** Which requests are answered, by their headers. */
import { assert, describe, it } from "vitest"
import * as fc from "fast-check"
import * as Gate from "#node/ops/RequestGate"

const token = "a-token-of-an-operator"
const isToken = (candidate: string): boolean => candidate === token

const loopback: Gate.Policy = { isLoopback: true, hosts: new Set(["agent.internal"]), isToken }
const elsewhere: Gate.Policy = { ...loopback, isLoopback: false }

const request: Gate.Request = {
  kind: "read",
  host: "127.0.0.1:4180",
  origin: undefined,
  authorization: undefined,
  site: undefined,
  contentType: undefined
}
const change: Gate.Request = {
  ...request,
  kind: "change",
  authorization: `Bearer ${token}`,
  contentType: "application/json"
}

const status = (policy: Gate.Policy, changed: Partial<Gate.Request>, of = request) =>
  Gate.verdict(policy, { ...of, ...changed })?.status

describe("RequestGate", () => {
  it("answers reads on loopback under the names of this machine", () => {
    for (const host of [
      "127.0.0.1:4180",
      "localhost",
      "LOCALHOST:80",
      "[::1]:4180",
      "127.9.9.9",
      "agent.internal:1"
    ]) {
      assert.isUndefined(status(loopback, { host }), host)
    }
  })

  it("refuses a rebound, missing or malformed Host", () => {
    const hosts = [
      undefined,
      "",
      "evil.example",
      "localhost.evil.example",
      "127.0.0.1.evil.example:4180",
      "10.0.0.1"
    ]
    for (const host of [
      ...hosts,
      "localhost:4180@evil",
      "a b",
      "localhost:999999",
      "[::1",
      "127.0.0.1:4180, evil"
    ]) {
      assert.strictEqual(status(loopback, { host }), 403, host)
    }
  })

  it("refuses every Host whose name is not on the list", () => {
    fc.assert(
      fc.property(fc.domain(), fc.constantFrom<Gate.Kind>("open", "read", "send", "change"), (host, kind) => {
        assert.strictEqual(status(loopback, { host, kind }, change), 403)
        assert.strictEqual(status(elsewhere, { host, kind }, change), 403)
      })
    )
  })

  it("answers addresses only where it does not listen on loopback", () => {
    const authorization = `Bearer ${token}`
    assert.isUndefined(status(elsewhere, { host: "10.0.0.7:4180", authorization }))
    assert.isUndefined(status(elsewhere, { host: "[fd00::7]:4180", authorization }))
    assert.strictEqual(status(loopback, { host: "10.0.0.7:4180", authorization }), 403)
  })

  it("refuses a foreign Origin, also that of another port, and null", () => {
    const origins = [
      "http://evil.example",
      "http://127.0.0.1:9999",
      "null",
      "",
      "file://",
      "http://127.0.0.1:4180.evil"
    ]
    for (const origin of origins) assert.strictEqual(status(loopback, { origin }), 403, origin)
    assert.isUndefined(status(loopback, { origin: "http://127.0.0.1:4180" }))
    assert.isUndefined(status(loopback, { host: "agent.internal", origin: "https://agent.internal" }))
  })

  it("refuses what the browser says another page has asked for", () => {
    assert.strictEqual(status(loopback, { site: "cross-site" }), 403)
    assert.strictEqual(status(loopback, { site: "same-site" }), 403)
    assert.isUndefined(status(loopback, { site: "same-origin" }))
    assert.isUndefined(status(loopback, { site: "none" }))
    assert.isUndefined(status(loopback, { site: "cross-site", kind: "open" }), "a link to the page")
  })

  it("wants a token for reads elsewhere, and for changes everywhere", () => {
    assert.strictEqual(status(elsewhere, {}), 401)
    assert.isUndefined(status(elsewhere, { authorization: `Bearer ${token}` }))
    assert.isUndefined(status(loopback, {}, change))
    assert.strictEqual(status(loopback, { authorization: undefined }, change), 401)
    for (const policy of [loopback, elsewhere]) {
      for (const authorization of [
        `Basic ${token}`,
        "Bearer",
        "Bearer ",
        `Bearer ${token}x`,
        `Bearer x ${token}`,
        token
      ]) {
        assert.strictEqual(status(policy, { authorization }, change), 401, authorization)
      }
    }
  })

  it("refuses what needs a token where none is configured", () => {
    assert.strictEqual(status({ ...loopback, isToken: undefined }, {}, change), 403)
    assert.strictEqual(status({ ...elsewhere, isToken: undefined }, {}), 403)
    assert.isUndefined(status({ ...loopback, isToken: undefined }, {}))
  })

  it("refuses changes that another page could send without asking first", () => {
    for (const contentType of [
      undefined,
      "text/plain",
      "application/x-www-form-urlencoded",
      "multipart/form-data"
    ]) {
      assert.strictEqual(status(loopback, { contentType }, change), 415, contentType)
    }
    assert.isUndefined(status(loopback, { contentType: "application/json; charset=utf-8" }, change))
  })

  it("wants JSON, but no token, for what is sent on loopback", () => {
    const send = { kind: "send", contentType: "application/json" } as const
    assert.isUndefined(status(loopback, send))
    assert.strictEqual(status(loopback, { ...send, contentType: "text/plain" }), 415)
    assert.strictEqual(status(elsewhere, send), 401)
  })

  it("repeats no value of a request in a refusal", () => {
    fc.assert(
      fc.property(
        fc.string({ minLength: 12 }),
        fc.constantFrom("host", "origin", "authorization", "site", "contentType"),
        (value, field) => {
          const refusal = Gate.verdict(elsewhere, { ...change, [field]: value })
          assert.isFalse(refusal?.message.includes(value) ?? false)
        }
      )
    )
  })
})
