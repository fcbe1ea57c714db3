"""Refuses MindIR graphs that could do more than compute, before MindSpore loads them.

MindSpore runs whatever a graph names: an operator can load a library of machine code, run Python, write files or talk
to other processes. Only operators that compute tensors from tensors pass here, those of all graphs that `ms_crf.export`
writes among them. The list does not depend on the version of MindSpore.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ms_crf.base.errors import CorpusError, brief

LARGEST = 1 << 30              # bytes of weights that MindSpore puts into one file
_MOST = LARGEST + (64 << 20)   # bytes of a graph, operators included

_NUMBERS = '''
    Abs ACos Acosh Add AddN AddV2 Addcdiv Addcmul Asin Asinh Atan Atan2 Atanh BitwiseAnd BitwiseNot BitwiseOr BitwiseXor
    Ceil Clamp ClampScalar ClampTensor ClipByValue Cos Cosh CumProd CumSum Cummax Cummin CumulativeLogsumexp Digamma Div
    DivMod DivNoNan Divs Eps Equal Erf Erfc Erfinv Exp Expm1 Floor FloorDiv FloorMod Fmax Fmin Frac Greater GreaterEqual
    Heaviside Hypot Inv Invert IsClose IsFinite IsInf IsNan LeftShift Lerp LerpScalar Less LessEqual Lgamma Log Log10
    Log1p Log2 LogAddExp LogAddExp2 LogSumExp LogicalAnd LogicalNot LogicalOr LogicalXor Logit Maximum Minimum Mod Mul
    MulNoNan Muls NanToNum Neg NotEqual Pow PowScalarTensor PowTensorScalar RealDiv Reciprocal RightShift Rint Round
    Rsqrt Sign Sin Sinc Sinh Sqrt Square SquaredDifference Sub Tan Tanh Trunc TruncateDiv TruncateMod Xdivy Xlogy
    AddExt AddScalar SubExt SubScalar EqualExt EqScalar GreaterEqualScalar LessScalar FloorDivScalar FmodScalar
    FmodTensor RemainderScalarTensor RemainderTensorScalar RemainderTensorTensor AddcdivExt AddcmulExt CumsumExt
    AcosExt AcoshExt AsinExt AsinhExt AtanExt Atan2Ext Exp2 XLogYScalarOther XLogYScalarSelf
    ArgMaxExt ArgMaxWithValue ArgMinExt ArgMinWithValue ArgminV2 Argmax Argmin CountNonZero L2Loss LpNorm LpNormV2
    LinalgVectorNorm Max MaxDim MeanExt Min MinDim Norm ProdExt ReduceAll ReduceAny ReduceMax ReduceMean ReduceMin
    ReduceProd ReduceStd ReduceSum Std StdMean SumExt Var VarMean Any AnyExt AllFinite EuclideanNorm
    BatchMatMul BatchMatMulExt Addbmm Addmm Addmv Baddbmm Dense Dot Einsum EinsumExt Ger MatMul MatMulExt Mm Mv Outer
    Cholesky MatrixInverse MatrixDeterminant LogMatrixDeterminant Trace TraceExt TriangularSolve SolveTriangular'''
_SHAPES = '''
    AsStrided BroadcastTo BroadcastToView Cast Chunk ChunkView Clone Col2Im Concat ConcatOffset Contiguous Copy Diag
    DiagExt DiagPart Diagonal DiagonalView DType DynamicBroadcastTo DynamicShape Expand ExpandAs ExpandDims
    ExpandDimsView Eye Fill FillDiagonal FillScalar FillTensor FillV2 Fills Flatten FlattenExt FullLike Gather GatherD
    GatherNd GatherNdExt Identity IdentityN Im2Col Index IndexAdd IndexAddExt IndexFill IndexFillScalar IndexFillTensor
    IndexSelect InnerIndex InvertPermutation LinSpace LinSpaceExt MaskedFill MaskedFillScalar MaskedScatter MaskedSelect
    MatrixBandPart Meshgrid MirrorPad Narrow NarrowView NonZero NonZeroExt OneHot OneHotExt Ones OnesLike OnesLikeExt
    Pad PadV3 ConstantPadND Padding Range RangeV2 Rank Repeat RepeatInterleaveInt RepeatInterleaveTensor Reshape
    ReshapeExt ReverseSequence ReverseV2 Roll Scatter ScatterNd ScatterValue SearchSorted Select SelectExtView SelectV2
    SequenceMask Shape Size Slice SliceExt SliceExtView Sort SortExt SpaceToBatchND BatchToSpaceND Split SplitTensor
    SplitTensorView SplitV SplitWithSize SplitWithSizeView Squeeze Stack StackExt StridedSlice Take TensorScatterAdd
    TensorScatterDiv TensorScatterElements TensorScatterMax TensorScatterMin TensorScatterMul TensorScatterSub
    TensorScatterUpdate TensorShape Tile ToDtype TopK TopkExt Transpose TransposeExtView TransposeView Tril TrilExt
    Triu Unique UniqueConsecutive Unsqueeze Unstack UnstackExtView UnsortedSegmentMax UnsortedSegmentMin
    UnsortedSegmentProd UnsortedSegmentSum SegmentMax SegmentMean SegmentMin SegmentProd SegmentSum View ViewAs Zeros
    ZerosLike ZerosLikeExt Arange ArgSort TExt MatrixDiagV3 MatrixDiagPartV3 MatrixSetDiagV3 TensorMove'''
_NETWORKS = '''
    AdaptiveAvgPool1D AdaptiveAvgPool2D AdaptiveMaxPool1D AdaptiveMaxPool2D AvgPool AvgPool1D AvgPool2D BatchNorm
    BiasAdd CeLU Conv1DExt Conv2D Conv2DExt Conv2DTranspose Conv3D Convolution DepthwiseConv2dNative Dropout Dropout2D
    DropoutExt DynamicGRUV2 DynamicRNN Elu EluExt Embedding EmbeddingLookup FastGeLU FlashAttentionScore GeLU GeluExt
    GLU GroupNorm HShrink HSigmoid HSwish Hardtanh InstanceNorm L2Normalize LayerNorm LayerNormExt LayerNormV3
    LeakyReLUExt LogSigmoid LogSoftmax LogSoftmaxExt LRN LSTM CudnnGRU MaxPool MaxPoolWithIndices MaxPoolWithMask Mish
    MishExt PReLU ReLU ReLU6 ReLUV3 RmsNorm SeLU SeLUExt SiLU Sigmoid SoftShrink Softmax Softplus SoftplusExt Softsign
    SparseSoftmaxCrossEntropyWithLogits SoftmaxCrossEntropyWithLogits Swiglu Threshold UpsampleLinear1D
    PromptFlashAttention CTCGreedyDecoder'''
_LANGUAGE = '''
    Return return Switch switch SwitchLayer switch_layer Partial partial Depend depend Load UpdateState StopGradient
    stop_gradient Call call MakeTuple make_tuple MakeList make_list TupleGetItem tuple_getitem ListGetItem list_getitem
    TupleSetItem tuple_setitem ListSetItem list_setitem MakeDict make_dict DictGetItem dict_getitem MakeSlice make_slice
    RealMakeTuple RealTupleGetItem RealMakeList RealListGetItem tuple_len list_len sequence_len SequenceLen array_len
    make_range MakeRange InSequence SequenceAdd SequenceConcat SequenceCount SequenceIndex SequenceMax SequenceMin
    SequenceMul SequenceSlice SequenceStack SequenceUnstack SequenceZerosLike SequenceAddN SequenceAddOffset ListAppend
    ListInsert ListToTensor TensorToList TensorToScalar TensorToTuple TupleToTensor ScalarToTensor ScalarCast
    TupleToArray ShapeCalc ShapeMul shape_mul tuple_equal tuple_lt tuple_le tuple_greater_than tuple_greater_equal
    list_equal list_lt list_le ScalarAdd ScalarSub ScalarMul ScalarDiv ScalarFloorDiv ScalarFloordiv ScalarMod ScalarPow
    ScalarUadd ScalarUsub ScalarEq ScalarLt ScalarLe ScalarGt ScalarGe ScalarNe ScalarBool ScalarMax ScalarMin ScalarLog
    scalar_add scalar_sub scalar_mul scalar_div scalar_floordiv scalar_mod scalar_eq scalar_lt scalar_le scalar_gt
    scalar_ge scalar_ne scalar_uadd scalar_usub bit_and bit_or bool_and bool_or bool_not BoolNot BoolAnd BoolOr
    Assign AssignAdd AssignSub J Constant Tensor'''
_REFERENCE = 'REF::'            # before the name of an entry of the table of primitives, or of a function
_FIELDS = {'ModelProto': ('graph', 'functions', 'primitives'), 'PrimitiveProto': ('attribute',),
           'GraphProto': ('node', 'parameter', 'attribute'), 'NodeProto': ('attribute', 'node_attr', 'primal_attr'),
           'AttributeProto': ('t', 'tensors', 'g', 'graphs', 'values', 'seq_info'),
           'SeqInfoProto': ('tuple_elem_item',)}
ALLOWED = frozenset(f'{_NUMBERS} {_SHAPES} {_NETWORKS} {_LANGUAGE}'.split())


def check_operators(path: Any, draft: Any = None) -> None:
    """Raises CorpusError unless a file is a MindIR graph, all of it in this file, of operators that only compute.

    Args:
        path: of the graph, for messages.
        draft: the file to read if it does not have its name yet.
    """
    from mindspore.train.mind_ir_pb2 import ModelProto

    advice = 'get the graph from people you trust, or export it again'
    try:
        size = os.path.getsize(draft or path)
        if size > _MOST:
            raise CorpusError(path, None, f'expected a MindIR graph of at most {_MOST:,} bytes, got {size:,}; {advice}')
        with open(draft or path, 'rb') as file:
            model: Any = ModelProto.FromString(file.read())
    except OSError as error:
        raise CorpusError(path, None, f'can not be read: {error.strerror}') from None
    except CorpusError:
        raise
    except Exception:                            # its type depends on the version of protobuf
        raise CorpusError(path, None, 'expected a MindIR graph, got a damaged or encrypted file; copy it again, or '
                                      'export again') from None
    for part in _parts(model):
        kind = part.DESCRIPTOR.name
        if kind in ('PrimitiveProto', 'NodeProto') and not part.op_type.startswith(_REFERENCE) \
                and part.op_type not in ALLOWED:
            raise CorpusError(path, None, f'expected operators that only compute, got {brief(part.op_type)}, which is '
                                          f'not in the list of {Path(__file__).name}; {advice}')
        if kind == 'TensorProto' and part.HasField('external_data'):
            raise CorpusError(path, None, f'expected a graph with its weights in the same file, got the name of '
                                          f'another file; {advice}')
        if kind == 'GraphProto' and part.bprop_filepath or kind == 'ModelProto' and part.HasField('preprocessor'):
            raise CorpusError(path, None, f'expected a graph alone, got one that reads other files or data; {advice}')


def _parts(model: Any) -> Iterator[Any]:
    """A model and all parts of it that can name an operator or a file, wherever they are nested."""
    waiting = [model]
    while waiting:
        part = waiting.pop()
        yield part
        for field in _FIELDS.get(part.DESCRIPTOR.name, ()):
            inner = getattr(part, field)
            waiting += inner if hasattr(inner, '__len__') else [inner] if part.HasField(field) else []
