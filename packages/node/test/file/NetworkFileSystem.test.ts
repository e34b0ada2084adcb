import { assert, it } from "@effect/vitest"
import * as NetworkFileSystem from "#node/file/NetworkFileSystem"

it("recognises network file systems by their magic number", () => {
  assert.deepStrictEqual(NetworkFileSystem.ofType(0x6969), { name: "NFS", verdict: "refuse" })
  // statfs returns a signed number on some systems.
  assert.strictEqual(NetworkFileSystem.ofType(0xff534d42 | 0)?.name, "CIFS")
  assert.deepStrictEqual(NetworkFileSystem.ofType(0x65735546), { name: "FUSE", verdict: "warn" })
})

it("counts local and unknown file systems as local", () => {
  for (const type of [0xef53, 0x01021994, 0x58465342, 0x9123683e, 0x794c7630, 1]) {
    assert.isUndefined(NetworkFileSystem.ofType(type))
  }
  assert.isUndefined(NetworkFileSystem.of(import.meta.dirname))
})
