/**
 * Reads width and height of an image from its first bytes: PNG, JPEG, GIF, WebP. Pure.
 *
 * It decodes no image, and reads no more than the first {@link maxBytes}.
 */

/** In pixels. */
export interface ImageSize {
  readonly width: number
  readonly height: number
}

/** Bytes to read. In a JPEG the size stands after the camera's metadata, which may have 64 kB. */
export const maxBytes = 96 * 1_024

/** Reads the size from bytes, base64 or a data URL. Returns `undefined` for another format or a URL. */
export const of = (data: Uint8Array | string | URL): ImageSize | undefined => {
  const bytes = data instanceof URL ? undefined : typeof data === "string" ? decoded(data) : data
  if (bytes === undefined || bytes.length < 10) return undefined
  const view = new DataView(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, maxBytes))
  try {
    const size = png(view) ?? gif(view) ?? webp(view) ?? jpeg(view)
    return size !== undefined && size.width > 0 && size.height > 0 ? size : undefined
  } catch {
    // The data ends before the size.
    return undefined
  }
}

const decoded = (text: string): Uint8Array | undefined => {
  const from = text.startsWith("data:") ? text.indexOf(",") + 1 : 0
  // Four characters are three bytes. Some encoders insert line breaks.
  const begin = text.slice(from, from + (maxBytes / 3) * 4).replaceAll(/\s/g, "")
  try {
    const binary = atob(begin.slice(0, begin.length - (begin.length % 4)))
    return Uint8Array.from(binary, (character) => character.charCodeAt(0))
  } catch {
    return undefined
  }
}

const png = (view: DataView): ImageSize | undefined =>
  view.getUint32(0) === 0x89504e47 ? { width: view.getUint32(16), height: view.getUint32(20) } : undefined

const gif = (view: DataView): ImageSize | undefined =>
  view.getUint32(0) === 0x47494638
    ? { width: view.getUint16(6, true), height: view.getUint16(8, true) }
    : undefined

const webp = (view: DataView): ImageSize | undefined => {
  if (view.getUint32(0) !== 0x52494646 || view.getUint32(8) !== 0x57454250) return undefined
  switch (view.getUint32(12)) {
    // "VP8 "
    case 0x56503820:
      return { width: view.getUint16(26, true) & 0x3fff, height: view.getUint16(28, true) & 0x3fff }
    // "VP8L"
    case 0x5650384c: {
      const bits = view.getUint32(21, true)
      return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 }
    }
    // "VP8X": 24 bits each, little-endian.
    case 0x56503858:
      return {
        width: (view.getUint32(24, true) & 0xffffff) + 1,
        height: (view.getUint16(27, true) | (view.getUint8(29) << 16)) + 1
      }
    default:
      return undefined
  }
}

const jpeg = (view: DataView): ImageSize | undefined => {
  if (view.getUint16(0) !== 0xffd8) return undefined
  for (let at = 2; ;) {
    if (view.getUint8(at) !== 0xff) return undefined
    const marker = view.getUint8(at + 1)
    if (isFrame(marker)) return { width: view.getUint16(at + 7), height: view.getUint16(at + 5) }
    // A padding byte, or a segment with its length.
    at += marker === 0xff ? 1 : 2 + view.getUint16(at + 2)
  }
}

/** True for a start of frame. Three markers in that range mean something else. */
const isFrame = (marker: number): boolean =>
  marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc
