/**
 * Rules by which vendors count the tokens of an image. Pure.
 *
 * Vendors scale large images down before they count. An image of unknown size is counted as 1,024 by 1,024 pixels.
 */
import type { ImageSize } from "@outlast/agent/compaction"

export type ImageRule =
  /** One token per 750 pixels, after scaling to `longest` (pixels of the longest side) and `max` (tokens). */
  | { readonly by: "pixels"; readonly longest: number; readonly max: number }
  /** `base` plus `tile` for each tile of 512 pixels, after scaling to 2,048 and its shorter side to 768. */
  | { readonly by: "tiles"; readonly base: number; readonly tile: number }
  /** Patches of 32 pixels, at most `max`, times `factor`. */
  | { readonly by: "patches"; readonly max: number; readonly factor: number }
  /** `crop` tokens for a small image (384 pixels) and for each crop of a larger one, after scaling to 3,072. */
  | { readonly by: "crops"; readonly crop: number }
  | { readonly by: "image"; readonly tokens: number }

/** https://platform.claude.com/docs/en/build-with-claude/vision */
export const claude: ImageRule = { by: "pixels", longest: 1_568, max: 1_600 }
/** From Claude Opus 4.7 on. */
export const claudeLarge: ImageRule = { by: "pixels", longest: 2_576, max: 4_784 }

/** https://developers.openai.com/api/docs/guides/images-vision */
export const gpt4: ImageRule = { by: "tiles", base: 85, tile: 170 }
export const gpt4oMini: ImageRule = { by: "tiles", base: 2_833, tile: 5_667 }
export const gpt5: ImageRule = { by: "tiles", base: 70, tile: 140 }
export const oSeries: ImageRule = { by: "tiles", base: 75, tile: 150 }
export const patches = (factor: number, max = 1_536): ImageRule => ({ by: "patches", max, factor })

/**
 * https://ai.google.dev/gemini-api/docs/image-understanding; the largest side:
 * https://firebase.google.com/docs/vertex-ai/input-file-requirements
 */
export const gemini: ImageRule = { by: "crops", crop: 258 }
/** https://ai.google.dev/gemini-api/docs/media-resolution */
export const gemini3: ImageRule = { by: "image", tokens: 1_120 }

const unknown: ImageSize.ImageSize = { width: 1_024, height: 1_024 }

export const tokensOf = (rule: ImageRule, size: ImageSize.ImageSize = unknown): number => {
  switch (rule.by) {
    case "pixels": {
      const { width, height } = scaled(size, rule.longest / Math.max(size.width, size.height))
      return Math.min(rule.max, Math.ceil((width * height) / 750))
    }
    case "tiles": {
      const fitting = scaled(size, 2_048 / Math.max(size.width, size.height))
      const { width, height } = scaled(fitting, 768 / Math.min(fitting.width, fitting.height))
      return rule.base + rule.tile * gridOf(width, height, 512)
    }
    case "patches":
      return Math.ceil(Math.min(rule.max, gridOf(size.width, size.height, 32)) * rule.factor)
    case "crops": {
      const { width, height } = scaled(size, 3_072 / Math.max(size.width, size.height))
      if (width <= 384 && height <= 384) return rule.crop
      const unit = Math.min(768, Math.max(256, Math.floor(Math.min(width, height) / 1.5)))
      return rule.crop * gridOf(width, height, unit)
    }
    case "image":
      return rule.tokens
  }
}

/** Scales down, never up. Each side stays at least one pixel, so a thin line does not vanish. */
const scaled = ({ width, height }: ImageSize.ImageSize, by: number): ImageSize.ImageSize =>
  by >= 1
    ? { width, height }
    : { width: Math.max(1, Math.round(width * by)), height: Math.max(1, Math.round(height * by)) }

const gridOf = (width: number, height: number, unit: number): number =>
  Math.ceil(width / unit) * Math.ceil(height / unit)
