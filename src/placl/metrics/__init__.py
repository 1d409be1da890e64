"""How good keypoints are: PCK and PCKh (a distance against a length), OKS and its average precision (COCO)."""

from placl.metrics.oks import OKSResult, oks, oks_map
from placl.metrics.pck import PCK, head_length, pck, pck_auc, pckh

__all__ = ["PCK", "OKSResult", "head_length", "oks", "oks_map", "pck", "pck_auc", "pckh"]
