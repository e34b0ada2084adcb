/** Sizes of images, read from headers as encoders write them. */
import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import * as ImageSize from "#agent/compaction/ImageSize"

const bytes = (...parts: ReadonlyArray<string | ReadonlyArray<number>>): Uint8Array =>
  Uint8Array.from(
    parts.flatMap((part) => (typeof part === "string" ? [...Buffer.from(part, "latin1")] : part))
  )

const zeros = (length: number): ReadonlyArray<number> => Array.from({ length }, () => 0)

/** 640 × 480, in each format. */
const headers: Readonly<Record<string, Uint8Array>> = {
  png: bytes("\x89PNG\r\n\x1a\n", [0, 0, 0, 13], "IHDR", [0, 0, 2, 128, 0, 0, 1, 224], zeros(9)),
  gif: bytes("GIF89a", [128, 2, 224, 1], zeros(6)),
  "webp, lossy": bytes("RIFF", zeros(4), "WEBPVP8 ", zeros(10), [128, 2, 224, 1]),
  // 14 bits each, stored minus one.
  "webp, lossless": bytes("RIFF", zeros(4), "WEBPVP8L", zeros(4), [0x2f, 127, 194, 119, 0], zeros(8)),
  "webp, extended": bytes("RIFF", zeros(4), "WEBPVP8X", zeros(8), [127, 2, 0, 223, 1, 0]),
  jpeg: bytes([0xff, 0xd8, 0xff, 0xc0, 0, 17, 8, 1, 224, 2, 128], zeros(10)),
  "jpeg, progressive, behind what a camera wrote": bytes(
    [0xff, 0xd8, 0xff, 0xe1, 0xff, 0xfe],
    zeros(0xfffc),
    [0xff, 0xc4, 0, 4, 0, 0, 0xff, 0xff, 0xc2, 0, 17, 8, 1, 224, 2, 128],
    zeros(10)
  )
}

describe("the size of an image", () => {
  it.each(Object.entries(headers))("is read from a %s, as bytes, base64 and data URL", (_, header) => {
    const base64 = Buffer.from(header).toString("base64")
    for (const data of [header, base64, `data:image/any;base64,${base64}`]) {
      assert.deepStrictEqual(ImageSize.of(data), { width: 640, height: 480 })
    }
    // The bytes may start anywhere in their buffer.
    const within = new Uint8Array(header.length + 7)
    within.set(header, 7)
    assert.deepStrictEqual(ImageSize.of(within.subarray(7)), { width: 640, height: 480 })
  })

  it("is read from base64 with line breaks, at any length", () => {
    for (let more = 0; more < 300; more++) {
      const data = Buffer.concat([headers["png"] ?? bytes(), Buffer.alloc(more)]).toString("base64")
      const lines = data.replaceAll(/.{76}/g, "$&\n")
      assert.deepStrictEqual(ImageSize.of(lines), { width: 640, height: 480 })
    }
  })

  it("is undefined for a URL, other formats and invalid data", () => {
    for (const data of [
      new URL("https://example.com/a.png"),
      "",
      "no base64 at all!",
      "AQ==",
      bytes("<svg/>       ")
    ]) {
      assert.isUndefined(ImageSize.of(data))
    }
    const empty = bytes("GIF89a", zeros(10))
    assert.isUndefined(ImageSize.of(empty))
  })

  it("never throws and is never zero, for any bytes", () => {
    const cut = fc
      .tuple(fc.constantFrom(...Object.values(headers)), fc.nat(80), fc.uint8Array({ maxLength: 40 }))
      .map(([header, length, more]) => Uint8Array.from([...header.subarray(0, length), ...more]))
    fc.assert(
      fc.property(fc.oneof(cut, fc.uint8Array({ maxLength: 100 })), (data) => {
        const size = ImageSize.of(data)
        assert.isTrue(size === undefined || (size.width > 0 && size.height > 0))
      })
    )
  })
})
